#include "arrays.h"

#include "constants.h"
#include "limits.h"
#include "schema.h"
#include "sealhost_guest.h"
#include "states.h"
#include "values.h"

#define MAX_UNIQUE 8u   /* values of which an array has each at most once: each set of them is a state */
#define MAX_ITEMS 1024u /* of minItems, maxItems and prefixItems: each is a state */

static uint32_t least, most;
static uint32_t prefix_counts[MAX_PARTS], at_prefix[MAX_PARTS]; /* by schema: how many it has; the one for the item at hand */
static uint32_t longest;                                        /* of these counts */

static int find_counts(const struct limits *limits) {
    least = longest = 0;
    most = ENDLESS;
    if (!largest(limits, KEY_MIN_ITEMS, MAX_ITEMS, &least) || !smallest(limits, KEY_MAX_ITEMS, MAX_ITEMS, &most))
        return 0;
    for (uint32_t own = 0; own < limits->count; own++) {
        uint32_t prefix = limits->of[own]->node[KEY_PREFIX_ITEMS];
        prefix_counts[own] = 0;
        for (uint32_t i = prefix ? limits->json->nodes[prefix].first : NO_NODE; i; i = limits->json->nodes[i].next)
            if (++prefix_counts[own] > MAX_ITEMS)
                return refuse("prefixItems", "at most 1024 schemas");
        longest = prefix_counts[own] > longest ? prefix_counts[own] : longest;
        uint32_t items = limits->of[own]->node[KEY_ITEMS];
        if (items && limits->json->nodes[items].kind == JSON_FALSE && prefix_counts[own] < most)
            most = prefix_counts[own];
    }
    return 1;
}

/* Items come from the last to the first: before one with this number. */
static void begin_items(const struct limits *limits, uint32_t count) {
    for (uint32_t own = 0; own < limits->count; own++) {
        at_prefix[own] = prefix_counts[own] ? limits->json->nodes[limits->of[own]->node[KEY_PREFIX_ITEMS]].last : NO_NODE;
        for (uint32_t i = prefix_counts[own]; i > count; i--)
            at_prefix[own] = limits->json->nodes[at_prefix[own]].before;
    }
}

/* Adds the schemas of item number `at`. */
static void item_parts(const struct limits *limits, uint32_t at, struct parts *parts) {
    for (uint32_t own = 0; own < limits->count; own++) {
        if (at < prefix_counts[own]) {
            add_part(parts, at_prefix[own], PART_SCHEMA);
            at_prefix[own] = limits->json->nodes[at_prefix[own]].before;
        } else if (limits->of[own]->node[KEY_ITEMS])
            add_part(parts, limits->of[own]->node[KEY_ITEMS], PART_SCHEMA);
    }
}

static uint32_t item_states(const struct limits *limits, uint32_t at, uint32_t next) {
    static struct parts parts;
    parts.count = 0;
    item_parts(limits, at, &parts);
    return value_states(limits->json, &parts, next);
}

/* ---- arrays of different constants ---- */

/* The values that items may have, all different; MAX_UNIQUE + 1: there are more, or it is not known which. */
static uint32_t find_items(const struct limits *limits, struct constant *found) {
    static struct parts given, parts;
    static struct limits inner;
    given.count = 0;
    if (longest > 0)
        return MAX_UNIQUE + 1;
    item_parts(limits, 0, &given);
    if (!take_apart(limits->json, &given, &parts, &inner))
        return 0;
    uint32_t count = are_constants(&parts) ? find_constants(&parts, &inner, found, MAX_UNIQUE) : MAX_UNIQUE + 1;
    for (uint32_t i = 0; i < count && count <= MAX_UNIQUE; i++)
        for (uint32_t j = 0; j < i; j++)
            if (equal_values(limits->json, found[i].value, found[j].value))
                return MAX_UNIQUE + 1;
    return count;
}

/* The items are some of a few constants, each at most once: a state for each set of those that were written. */
static uint32_t unique_states(const struct limits *limits, uint32_t next) {
    static uint32_t after[1u << MAX_UNIQUE];
    static const char *expected = "false, at most one item, or items with an enum of at most 8 different values: other items are not compared";
    struct constant found[MAX_UNIQUE];
    uint32_t fewest = least, highest = most, end = range_state(']', ']', next), count = find_items(limits, found);
    if (is_refused || count > MAX_UNIQUE)
        return (uint32_t)refuse("uniqueItems", expected) + DEAD_STATE;
    for (uint32_t set = 1u << count; set-- > 0 && may_build();) {
        uint32_t size = (uint32_t)__builtin_popcount(set), state = size >= fewest && size <= highest ? end : DEAD_STATE;
        for (uint32_t i = 0; i < count && size < highest; i++)
            if (!(set >> i & 1) && after[set | 1u << i] != DEAD_STATE) {
                uint32_t item = call_state(found[i].state, after[set | 1u << i]);
                state = split_state(set ? spaced(',', item) : item, state);
            }
        after[set] = state;
    }
    return after[0] == DEAD_STATE ? DEAD_STATE : range_state('[', '[', after[0]);
}

uint32_t array_states(const struct limits *limits, uint32_t next) {
    uint32_t end = range_state(']', ']', next), state = end;
    if (!find_counts(limits) || least > most)
        return DEAD_STATE;
    if (has_keyword(limits, KEY_UNIQUE_ITEMS) && most > 1)
        return unique_states(limits, next);
    uint32_t settled = longest > least ? longest : least; /* items after which each is like the one before */
    settled = settled > 0 ? settled : 1;
    if (most == ENDLESS) {
        state = open_state();
        uint32_t item = item_states(limits, MAX_ITEMS, state);
        close_state(state, item == DEAD_STATE ? item : spaced(',', item), end);
    }
    uint32_t count = most == ENDLESS ? settled : most;
    begin_items(limits, count);
    for (uint32_t at = count; at-- > 0 && may_build();) { /* `state` is what follows at + 1 items */
        uint32_t item = item_states(limits, at, state);
        if (at > 0 && item != DEAD_STATE)
            item = spaced(',', item);
        state = at >= least ? split_state(item, end) : item;
    }
    return state == DEAD_STATE ? state : range_state('[', '[', state);
}

/* ---- constants ---- */

/* Whether no two items are equal. */
static int are_unique(const struct json *json, uint32_t value) {
    for (uint32_t i = json->nodes[value].first; i; i = json->nodes[i].next)
        for (uint32_t j = json->nodes[i].next; j && may_build(); j = json->nodes[j].next)
            if (equal_values(json, i, j))
                return 0;
    return 1;
}

uint32_t constant_array(const struct limits *limits, uint32_t value, uint32_t next) {
    static struct parts parts;
    const struct json *json = limits->json;
    uint32_t count = 0, state = range_state(']', ']', next);
    for (uint32_t i = json->nodes[value].first; i; i = json->nodes[i].next)
        count++;
    if (!find_counts(limits) || count < least || (most != ENDLESS && count > most))
        return DEAD_STATE;
    if (has_keyword(limits, KEY_UNIQUE_ITEMS) && !are_unique(json, value))
        return DEAD_STATE;
    begin_items(limits, count);
    for (uint32_t i = json->nodes[value].last, at = count; i && state != DEAD_STATE && may_build(); i = json->nodes[i].before) {
        parts.count = 0;
        add_part(&parts, i, PART_VALUE);
        item_parts(limits, --at, &parts);
        state = value_states(json, &parts, state);
        if (json->nodes[i].before && state != DEAD_STATE)
            state = range_state(',', ',', state);
    }
    return state == DEAD_STATE ? state : range_state('[', '[', state);
}
