/* Each schema is a rule of its own that others call, so that recursion by $ref is just a call, and a list of those
 * still to be written replaces recursion here. */
#include "schema.h"

#include "containers.h"
#include "regex.h"
#include "sealhost_guest.h"
#include "states.h"

static uint32_t rule_of[JSON_NODES], todo[JSON_NODES], todo_count;

uint32_t value_rule(uint32_t schema) {
    if (!rule_of[schema]) {
        rule_of[schema] = open_state();
        todo[todo_count++] = schema;
    }
    return rule_of[schema];
}

/* ---- $ref ---- */

/* The part of a value that one step of a JSON pointer names (RFC 6901): ~1 is a slash, ~0 a tilde. */
static uint32_t step(const struct json *json, uint32_t whole, const uint8_t *name, uint32_t length) {
    uint32_t index = 0;
    for (uint32_t i = json->nodes[whole].first; i; i = json->nodes[i].next, index++) {
        const struct json_node *part = &json->nodes[i];
        uint32_t at = 0, read = 0, number = 0;
        if (json->nodes[whole].kind == JSON_ARRAY) {
            while (at < length && at < 4 && name[at] >= '0' && name[at] <= '9')
                number = number * 10 + name[at++] - '0';
            if (at > 0 && at == length && number == index)
                return i;
            continue;
        }
        for (; at < length && read < part->key_length; at++, read++) {
            uint8_t c = name[at];
            if (c == '~' && at + 1 < length)
                c = name[++at] == '1' ? '/' : '~';
            if (c != json->text[part->key + read])
                break;
        }
        if (at == length && read == part->key_length)
            return i;
    }
    return NO_NODE;
}

static uint32_t referred(const struct json *json, const struct json_node *ref, uint32_t root) {
    const uint8_t *text = json->text + ref->at;
    uint32_t found = ref->kind == JSON_TEXT && ref->length > 0 && text[0] == '#' ? root : NO_NODE;
    for (uint32_t at = 1, from; found && at < ref->length; at = from) {
        if (text[at] != '/')
            found = NO_NODE;
        for (from = ++at; from < ref->length && text[from] != '/'; from++)
            ;
        found = found ? step(json, found, text + at, from - at) : NO_NODE;
    }
    if (!found)
        refuse("$ref", "# or #/... to a schema within this one");
    return found;
}

/* ---- `type` beside what speaks for the whole value ---- */

/* Whether all values of a list have one of these types. */
static int all_typed(const struct json *json, uint32_t list, uint32_t types) {
    for (uint32_t i = json->nodes[list].first; i; i = json->nodes[i].next)
        if (!(type_of(json, i) & types))
            return 0;
    return 1;
}

/* Whether all texts of a schema have one of these types, as far as a look at its own keywords tells. */
static int is_within(const struct json *json, uint32_t schema, uint32_t types) {
    struct keywords found;
    if (json->nodes[schema].kind != JSON_OBJECT)
        return json->nodes[schema].kind == JSON_FALSE;
    if (!find_keywords(json, schema, &found))
        return 0;
    if (types & TYPE_NUMBER)
        types |= TYPE_INTEGER;
    if (found.node[KEY_TYPE])
        return !(found.types & ~types);
    if (found.node[KEY_CONST])
        return (type_of(json, found.node[KEY_CONST]) & types) != 0;
    if (found.node[KEY_ENUM])
        return all_typed(json, found.node[KEY_ENUM], types);
    for (uint32_t i = KEY_REF; i <= KEY_ALL_OF; i++)
        if (found.node[i])
            return 0;
    return !(found.types & ~types);
}

static int check_within(const struct json *json, uint32_t schema, const struct keywords *found) {
    if (!found->node[KEY_TYPE] || is_within(json, schema, found->types))
        return 1;
    return refuse("type", "schemas of that type alone beside it: give each its own type");
}

/* ---- bodies ---- */

static uint32_t one_of(const struct json *json, const struct keywords *found, enum keyword which, uint32_t most) {
    uint32_t all = DEAD_STATE, count = 0, list = found->node[which];
    const char *keyword = keyword_name(which);
    if (json->nodes[list].kind != JSON_ARRAY || !json->nodes[list].first)
        return (uint32_t)refuse(keyword, "a list of schemas") + DEAD_STATE;
    for (uint32_t i = json->nodes[list].last; i && may_build(); i = json->nodes[i].before, count++) {
        if (!check_within(json, i, found))
            return DEAD_STATE;
        all = split_state(call_state(value_rule(i), RETURN_STATE), all);
    }
    if (count > most)
        return (uint32_t)refuse(keyword, "one schema: this guest does not intersect several") + DEAD_STATE;
    return all;
}

static uint32_t literals(const struct json *json, const struct keywords *found) {
    uint32_t all = DEAD_STATE, list = found->node[KEY_ENUM];
    if (found->node[KEY_CONST])
        return type_of(json, found->node[KEY_CONST]) & found->types ? literal(json, found->node[KEY_CONST], RETURN_STATE) : DEAD_STATE;
    if (json->nodes[list].kind != JSON_ARRAY)
        return (uint32_t)refuse("enum", "a list of values") + DEAD_STATE;
    for (uint32_t i = json->nodes[list].last; i && may_build(); i = json->nodes[i].before)
        if (type_of(json, i) & found->types)
            all = split_state(literal(json, i, RETURN_STATE), all);
    return all;
}

static uint32_t text_states(const struct json *json, const struct keywords *found) {
    uint32_t least = 0, most = MAX_LENGTH + 1;
    const struct json_node *pattern = &json->nodes[found->node[KEY_PATTERN]];
    if (!found->node[KEY_PATTERN]) {
        if (!whole_limit(json, found, KEY_MIN_LENGTH, MAX_LENGTH, &least) || !whole_limit(json, found, KEY_MAX_LENGTH, MAX_LENGTH, &most))
            return DEAD_STATE;
        if (least == 0 && most > MAX_LENGTH)
            return string_states(RETURN_STATE);
        return least <= most ? sized_string(least, most, RETURN_STATE) : DEAD_STATE;
    }
    if (found->node[KEY_MIN_LENGTH] || found->node[KEY_MAX_LENGTH])
        return (uint32_t)refuse("pattern", "no minLength or maxLength beside it: write {m,n} into the pattern") + DEAD_STATE;
    if (pattern->kind != JSON_TEXT)
        return (uint32_t)refuse("pattern", "a text") + DEAD_STATE;
    uint32_t inner = regex_states(json->text + pattern->at, pattern->length, REGEX_SEARCH, range_state('"', '"', RETURN_STATE));
    if (regex_problem && refuse("pattern", regex_problem) == 0)
        return DEAD_STATE;
    return inner == DEAD_STATE ? inner : range_state('"', '"', inner);
}

static uint32_t typed(const struct json *json, const struct keywords *found) {
    uint32_t all = DEAD_STATE, types = found->types;
    struct limits limits;
    if (types & TYPE_NULL)
        all = split_state(all, text_state((const uint8_t *)"null", 4, RETURN_STATE));
    if (types & TYPE_BOOLEAN) {
        all = split_state(all, text_state((const uint8_t *)"true", 4, RETURN_STATE));
        all = split_state(all, text_state((const uint8_t *)"false", 5, RETURN_STATE));
    }
    if (types & TYPE_STRING)
        all = split_state(all, text_states(json, found));
    if (types & (TYPE_INTEGER | TYPE_NUMBER) && number_limits(json, found, &limits))
        all = split_state(all, types & TYPE_NUMBER ? any_number(&limits, RETURN_STATE) : whole_number(&limits, RETURN_STATE));
    if (types & TYPE_ARRAY && !is_refused)
        all = split_state(all, array_states(json, found, RETURN_STATE));
    if (types & TYPE_OBJECT && !is_refused)
        all = split_state(all, object_states(json, found, RETURN_STATE));
    return all;
}

static uint32_t body(const struct json *json, uint32_t schema, uint32_t root) {
    struct keywords found;
    uint32_t kind = json->nodes[schema].kind, target;
    if (kind == JSON_FALSE)
        return DEAD_STATE;
    if (kind == JSON_TRUE)
        return any_value(RETURN_STATE);
    if (kind != JSON_OBJECT)
        return (uint32_t)refuse("schema", "an object, true or false") + DEAD_STATE;
    if (!find_keywords(json, schema, &found))
        return DEAD_STATE;
    if (found.is_empty)
        return any_value(RETURN_STATE);
    if (found.node[KEY_REF]) {
        target = referred(json, &json->nodes[found.node[KEY_REF]], root);
        return target && check_within(json, target, &found) ? call_state(value_rule(target), RETURN_STATE) : DEAD_STATE;
    }
    if (found.node[KEY_CONST] || found.node[KEY_ENUM])
        return literals(json, &found);
    for (uint32_t which = KEY_ANY_OF; which <= KEY_ALL_OF; which++)
        if (found.node[which])
            return one_of(json, &found, (enum keyword)which, which == KEY_ALL_OF ? 1 : JSON_NODES);
    return typed(json, &found);
}

int32_t schema_states(const struct json *json, uint32_t root, uint32_t *start) {
    values_clear();
    clear_bytes(rule_of, sizeof rule_of);
    todo_count = 0;
    is_refused = 0;
    *start = value_rule(root);
    for (uint32_t i = 0; i < todo_count && !is_refused && may_build(); i++)
        close_state(rule_of[todo[i]], body(json, todo[i], root), DEAD_STATE);
    return is_refused ? SEALHOST_ERROR_UNSUPPORTED : SEALHOST_OK;
}
