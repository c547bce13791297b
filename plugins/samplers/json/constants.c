#include "constants.h"

#include "arrays.h"
#include "decimal.h"
#include "numbers.h"
#include "objects.h"
#include "schema.h"
#include "sealhost_guest.h"
#include "states.h"
#include "strings.h"
#include "values.h"

/* ---- equality ---- */

static int same_text(const struct json *json, uint32_t at, uint32_t length, uint32_t other_at, uint32_t other_length) {
    return length == other_length && equal_bytes(json->text + at, json->text + other_at, length);
}

static int equal_scalars(const struct json *json, uint32_t a, uint32_t b) {
    const struct json_node *one = &json->nodes[a], *other = &json->nodes[b];
    struct decimal left, right;
    if (one->kind < JSON_NUMBER || same_text(json, one->at, one->length, other->at, other->length))
        return 1;
    if (one->kind == JSON_TEXT || !may_build() || !read_decimal(json, a, &left))
        return 0;
    return read_decimal(json, b, &right) && compare_decimals(&left, &right) == 0;
}

static uint32_t part_count(const struct json *json, uint32_t whole) {
    uint32_t count = 0;
    for (uint32_t i = json->nodes[whole].first; i; i = json->nodes[i].next)
        count++;
    return count;
}

/* The member of an object that is named like another object's member. */
static uint32_t same_member(const struct json *json, uint32_t object, uint32_t member) {
    const struct json_node *node = &json->nodes[member];
    for (uint32_t i = json->nodes[object].first; i && may_build(); i = json->nodes[i].next)
        if (same_text(json, json->nodes[i].key, json->nodes[i].key_length, node->key, node->key_length))
            return i;
    return NO_NODE;
}

int equal_values(const struct json *json, uint32_t a, uint32_t b) {
    static uint32_t todo[JSON_NODES][2];
    uint32_t count = 0;
    todo[count][0] = a;
    todo[count++][1] = b;
    while (count > 0 && may_build()) {
        uint32_t left = todo[--count][0], right = todo[count][1], kind = json->nodes[left].kind;
        if (kind != json->nodes[right].kind)
            return 0;
        if (kind < JSON_ARRAY) {
            if (!equal_scalars(json, left, right))
                return 0;
            continue;
        }
        if (part_count(json, left) != part_count(json, right))
            return 0;
        uint32_t other = json->nodes[right].first;
        for (uint32_t i = json->nodes[left].first; i; i = json->nodes[i].next, other = json->nodes[other].next) {
            uint32_t partner = kind == JSON_ARRAY ? other : same_member(json, right, i);
            if (!partner)
                return 0;
            todo[count][0] = i;
            todo[count++][1] = partner;
        }
    }
    return count == 0;
}

static int is_in(const struct json *json, uint32_t value, uint32_t list) {
    for (uint32_t i = json->nodes[list].first; i && may_build(); i = json->nodes[i].next)
        if (equal_values(json, value, i))
            return 1;
    return 0;
}

/* ---- one value ---- */

/* Whether it is what each const and enum says but `from`, which has it. */
static int agrees(const struct parts *parts, const struct json *json, uint32_t value, uint32_t from) {
    for (uint32_t i = 0; i < parts->count; i++) {
        uint32_t node = part_node(parts->of[i]);
        if (part_kind(parts->of[i]) == PART_VALUE && node != from && !equal_values(json, value, node))
            return 0;
        if (part_kind(parts->of[i]) == PART_ENUM && node != from && !is_in(json, value, node))
            return 0;
    }
    return 1;
}

static uint32_t value_that_fits(const struct limits *limits, uint32_t value) {
    const struct json *json = limits->json;
    if (!may_build() || !(type_of(json, value) & limits->named))
        return DEAD_STATE;
    if (limits->count > 0)
        switch (json->nodes[value].kind) {
        case JSON_TEXT:
            if (!text_fits(limits, json->nodes[value].at, json->nodes[value].length))
                return DEAD_STATE;
            break;
        case JSON_NUMBER:
            if (!number_fits(json, value))
                return DEAD_STATE;
            break;
        case JSON_ARRAY:
            return constant_array(limits, value, RETURN_STATE);
        case JSON_OBJECT:
            return constant_object(limits, value, RETURN_STATE);
        default:
            break;
        }
    return literal(json, value, RETURN_STATE);
}

int are_constants(const struct parts *parts) {
    int is_constant = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        if (part_kind(parts->of[i]) == PART_CHOICE)
            return 0;
        is_constant |= part_kind(parts->of[i]) >= PART_ENUM;
    }
    return is_constant;
}

/* The const or enum that is mentioned first: its values are written. */
static uint32_t first_list(const struct parts *parts) {
    uint32_t first = 0;
    while (part_kind(parts->of[first]) < PART_ENUM)
        first++;
    return parts->of[first];
}

uint32_t constant_states(const struct parts *parts, const struct limits *limits) {
    const struct json *json = limits->json;
    uint32_t first = first_list(parts), node = part_node(first), all = DEAD_STATE;
    if (!find_bounds(limits))
        return all;
    if (part_kind(first) == PART_VALUE)
        return agrees(parts, json, node, node) ? value_that_fits(limits, node) : DEAD_STATE;
    for (uint32_t i = json->nodes[node].last; i && may_build() && !is_refused; i = json->nodes[i].before)
        if (agrees(parts, json, i, node))
            all = split_state(value_that_fits(limits, i), all);
    return all;
}

/* The value after one of a list, or the first one; NO_NODE: there is none. `list`: what first_list returned. */
static uint32_t value_after(const struct json *json, uint32_t list, uint32_t value) {
    uint32_t node = part_node(list);
    if (part_kind(list) == PART_VALUE)
        return value ? NO_NODE : node;
    return value ? json->nodes[value].next : json->nodes[node].first;
}

uint32_t find_texts(const struct parts *parts, const struct limits *limits, uint32_t *found, uint32_t most) {
    const struct json *json = limits->json;
    uint32_t first = first_list(parts), count = 0;
    for (uint32_t i = value_after(json, first, NO_NODE); i && may_build() && !is_refused; i = value_after(json, first, i)) {
        const struct json_node *value = &json->nodes[i];
        if (value->kind != JSON_TEXT || !agrees(parts, json, i, part_node(first)) || !text_fits(limits, value->at, value->length))
            continue;
        if (count == most)
            return most + 1;
        found[count++] = i;
    }
    return count;
}

uint32_t find_constants(const struct parts *parts, const struct limits *limits, struct constant *found, uint32_t most) {
    const struct json *json = limits->json;
    uint32_t first = first_list(parts), count = 0;
    if (!find_bounds(limits))
        return 0;
    for (uint32_t i = value_after(json, first, NO_NODE); i && may_build() && !is_refused; i = value_after(json, first, i)) {
        uint32_t state = agrees(parts, json, i, part_node(first)) ? value_that_fits(limits, i) : DEAD_STATE;
        if (state != DEAD_STATE && count == most)
            return most + 1;
        if (state != DEAD_STATE)
            found[count++] = (struct constant){i, state};
    }
    return count;
}
