/* Each conjunction of schemas is a rule of its own that others call, so that recursion by $ref is just a call, and the list
 * of conjunctions that were met replaces recursion here. */
#include "schema.h"

#include "arrays.h"
#include "constants.h"
#include "numbers.h"
#include "objects.h"
#include "references.h"
#include "sealhost_guest.h"
#include "states.h"
#include "strings.h"
#include "values.h"

static uint32_t rules[MAX_CONJUNCTIONS], root;

static uint32_t rule_of(const struct parts *parts) {
    uint32_t before = conjunction_count(), number = conjunction_of(parts);
    if (number >= before)
        rules[number] = open_state();
    return number ? rules[number] : DEAD_STATE;
}

uint32_t value_states(const struct json *json, const struct parts *given, uint32_t next) {
    static struct parts parts;
    parts.count = 0;
    for (uint32_t i = 0; i < given->count && may_step(); i++) {
        const struct json_node *node = &json->nodes[part_node(given->of[i])];
        if (part_kind(given->of[i]) == PART_SCHEMA && node->kind == JSON_FALSE)
            return DEAD_STATE;
        if (part_kind(given->of[i]) != PART_SCHEMA || node->kind != JSON_TRUE)
            parts.of[parts.count++] = given->of[i];
    }
    if (parts.count == 0)
        return any_value(next);
    if (parts.count == 1 && part_kind(parts.of[0]) == PART_VALUE)
        return literal(json, part_node(parts.of[0]), next);
    return call_state(rule_of(&parts), next);
}

/* ---- what schemas say themselves and by $ref and allOf ---- */

static uint32_t opened[JSON_NODES], opening; /* by schema: 2 * opening while what it names is looked at, and 1 more after it */
static uint32_t todo[3 * JSON_NODES], todo_count;
static uint32_t target_of[JSON_NODES]; /* by $ref; NO_NODE: not yet known */

static void mention(const struct json *json, const struct keywords *found, uint32_t schema, struct parts *parts) {
    if (has_own(found))
        add_part(parts, schema, PART_OWN);
    if (found->node[KEY_CONST])
        add_part(parts, found->node[KEY_CONST], PART_VALUE);
    if (found->node[KEY_ENUM])
        add_part(parts, found->node[KEY_ENUM], PART_ENUM);
    if (found->node[KEY_ANY_OF])
        add_part(parts, found->node[KEY_ANY_OF], PART_CHOICE);
    if (found->node[KEY_ONE_OF])
        add_part(parts, found->node[KEY_ONE_OF], PART_CHOICE);
    for (uint32_t i = found->node[KEY_ALL_OF] ? json->nodes[found->node[KEY_ALL_OF]].last : NO_NODE; i; i = json->nodes[i].before)
        todo[todo_count++] = 2 * i;
    if (found->node[KEY_REF]) {
        uint32_t *target = &target_of[found->node[KEY_REF]];
        *target = *target ? *target : referred(json, found->node[KEY_REF], root);
        todo[todo_count++] = 2 * *target;
    }
}

static int find_parts(const struct json *json, const struct parts *given, struct parts *parts) {
    opening++;
    todo_count = parts->count = 0;
    for (uint32_t i = 0; i < given->count; i++) {
        if (part_kind(given->of[i]) != PART_SCHEMA) {
            add_part(parts, part_node(given->of[i]), part_kind(given->of[i]));
            continue;
        }
        todo[todo_count++] = 2 * part_node(given->of[i]);
        while (todo_count > 0 && may_build()) {
            uint32_t schema = todo[--todo_count] / 2, kind = json->nodes[schema].kind;
            if (todo[todo_count] % 2) {
                opened[schema] = 2 * opening + 1;
                continue;
            }
            if (opened[schema] == 2 * opening || kind == JSON_FALSE) /* what a schema needs is itself: nothing fits at last */
                return 0;
            if (opened[schema] == 2 * opening + 1 || kind == JSON_TRUE)
                continue;
            if (kind != JSON_OBJECT)
                return refuse("schema", "an object, true or false");
            const struct keywords *found = keywords_of(json, schema);
            if (!found)
                return 0;
            opened[schema] = 2 * opening;
            todo[todo_count++] = 2 * schema + 1;
            mention(json, found, schema, parts);
            if (is_refused)
                return 0;
        }
    }
    return !build_problem;
}

int take_apart(const struct json *json, const struct parts *given, struct parts *parts, struct limits *limits) {
    limits->json = json;
    limits->count = limits->subjects = 0;
    limits->named = TYPE_ALL;
    if (!find_parts(json, given, parts))
        return 0;
    for (uint32_t i = 0; i < parts->count; i++)
        if (part_kind(parts->of[i]) == PART_OWN)
            add_limits(limits, keywords_of(json, part_node(parts->of[i]))); /* find_parts has found them */
    return limits->named != 0;
}

/* ---- rules ---- */

/* All parts but the one at `place`, and each of its schemas in turn. */
static uint32_t choice(const struct json *json, const struct parts *parts, uint32_t place) {
    static struct parts chosen;
    uint32_t all = DEAD_STATE, list = part_node(parts->of[place]);
    for (uint32_t option = json->nodes[list].last; option && may_build(); option = json->nodes[option].before) {
        chosen.count = 0;
        for (uint32_t i = 0; i < parts->count && may_step(); i++)
            if (i != place)
                chosen.of[chosen.count++] = parts->of[i];
        add_part(&chosen, option, PART_SCHEMA);
        all = split_state(value_states(json, &chosen, RETURN_STATE), all);
    }
    return all;
}

static uint32_t typed(const struct limits *limits) {
    uint32_t all = DEAD_STATE, types = types_of(limits);
    if (types & TYPE_NULL)
        all = split_state(all, text_state((const uint8_t *)"null", 4, RETURN_STATE));
    if (types & TYPE_BOOLEAN) {
        all = split_state(all, text_state((const uint8_t *)"true", 4, RETURN_STATE));
        all = split_state(all, text_state((const uint8_t *)"false", 5, RETURN_STATE));
    }
    if (types & TYPE_STRING)
        all = split_state(all, text_states(limits, RETURN_STATE));
    if (types & (TYPE_INTEGER | TYPE_NUMBER) && !is_refused)
        all = split_state(all, number_states(limits, !(types & TYPE_NUMBER), RETURN_STATE));
    if (types & TYPE_ARRAY && !is_refused)
        all = split_state(all, array_states(limits, RETURN_STATE));
    if (types & TYPE_OBJECT && !is_refused)
        all = split_state(all, object_states(limits, RETURN_STATE));
    return all;
}

static uint32_t body(const struct json *json, uint32_t number) {
    static struct parts given, parts;
    static struct limits limits;
    int is_constant = 0;
    conjunction_parts(number, &given);
    if (!take_apart(json, &given, &parts, &limits))
        return DEAD_STATE;
    if (parts.count == 0)
        return any_value(RETURN_STATE);
    for (uint32_t i = 0; i < parts.count; i++) {
        if (part_kind(parts.of[i]) == PART_CHOICE)
            return choice(json, &parts, i);
        is_constant |= part_kind(parts.of[i]) >= PART_ENUM;
    }
    return is_constant ? constant_states(&parts, &limits) : typed(&limits);
}

int32_t schema_states(const struct json *json, uint32_t whole_schema, uint32_t *start) {
    static struct parts whole;
    values_clear();
    strings_clear();
    numbers_clear();
    conjunctions_clear();
    keywords_clear();
    clear_bytes(target_of, sizeof target_of);
    clear_bytes(opened, sizeof opened);
    opening = 0;
    is_refused = 0;
    root = whole_schema;
    whole.count = 0;
    add_part(&whole, root, PART_SCHEMA);
    *start = rule_of(&whole);
    for (uint32_t i = 1; i < conjunction_count() && !is_refused && may_build(); i++)
        close_state(rules[i], body(json, i), DEAD_STATE);
    return is_refused ? SEALHOST_ERROR_UNSUPPORTED : SEALHOST_OK;
}
