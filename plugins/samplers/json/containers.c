#include "containers.h"

#include "characters.h"
#include "sealhost_guest.h"
#include "states.h"

struct member {
    uint32_t name, length; /* in the schema's text */
    uint32_t schema;       /* NO_NODE: any value */
    uint8_t is_required, is_declared;
};

static struct member members[MAX_PROPERTIES];
static uint32_t member_count, order[2][MAX_PROPERTIES];

static uint32_t value_of(uint32_t schema, uint32_t next) {
    return schema ? call_state(value_rule(schema), next) : any_value(next);
}

static int is_false(const struct json *json, uint32_t node) {
    return node && json->nodes[node].kind == JSON_FALSE;
}

/* ---- names of members that no property has ---- */

static int compare(const struct json *json, uint32_t a, uint32_t b) {
    const uint8_t *left = json->text + members[a].name, *right = json->text + members[b].name;
    for (uint32_t i = 0; i < members[a].length && i < members[b].length; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return members[a].length < members[b].length ? -1 : members[a].length > members[b].length;
}

/* Members by name; merge sort, bottom up. */
static const uint32_t *sorted(const struct json *json) {
    uint32_t *from = order[0], *to = order[1];
    for (uint32_t i = 0; i < member_count; i++)
        from[i] = i;
    for (uint32_t width = 1; width < member_count; width *= 2) {
        for (uint32_t start = 0; start < member_count; start += 2 * width) {
            uint32_t middle = start + width < member_count ? start + width : member_count;
            uint32_t end = start + 2 * width < member_count ? start + 2 * width : member_count;
            for (uint32_t a = start, b = middle, at = start; at < end; at++)
                to[at] = a < middle && (b == end || compare(json, from[a], from[b]) <= 0) ? from[a++] : from[b++];
        }
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

struct group { /* names low .. high - 1 of the sorted ones begin alike, with `depth` bytes */
    uint32_t low, high, depth, state;
};

/* A name that is not one of the members'. As long as it begins like one of them it has no escapes, so that no name
 * comes in disguise. */
static uint32_t other_name(const struct json *json, uint32_t next) {
    static struct group todo[MAX_PROPERTIES + 1];
    static struct characters others;
    const uint32_t *names = sorted(json);
    uint32_t count = 0, rest = string_tail(next), start = open_state();
    todo[count++] = (struct group){0, member_count, 0, start};
    while (count > 0 && may_build()) {
        struct group group = todo[--count];
        uint32_t all = DEAD_STATE, first = group.low;
        for (; first < group.high && members[names[first]].length == group.depth; first++)
            ;
        if (first == group.low) /* none of the names ends here */
            all = range_state('"', '"', next);
        others.count = 0;
        add_characters(&others, 0, 0x1f);
        add_characters(&others, '"', '"');
        add_characters(&others, '\\', '\\');
        for (uint32_t from = first, to; from < group.high; from = to) {
            const struct member *member = &members[names[from]];
            const uint8_t *text = json->text + member->name;
            uint32_t end = group.depth, letter = read_character(text, member->length, &end), size = end - group.depth;
            for (to = from + 1; to < group.high; to++)
                if (!equal_bytes(json->text + members[names[to]].name + group.depth, text + group.depth, size))
                    break;
            if (!add_characters(&others, letter, letter)) {
                refuse("properties", "fewer names");
                return DEAD_STATE;
            }
            if (letter < 0x20 || letter == '"' || letter == '\\' || count == MAX_PROPERTIES + 1)
                continue;
            uint32_t child = open_state();
            all = split_state(all, text_state(text + group.depth, size, child));
            todo[count++] = (struct group){from, to, end, child};
        }
        if (!invert_characters(&others)) {
            refuse("properties", "fewer names");
            return DEAD_STATE;
        }
        close_state(group.state, character_states(&others, 0, rest), all);
    }
    return range_state('"', '"', start);
}

/* ---- objects ---- */

static int is_named(const struct json *json, const struct member *member, const struct json_node *text) {
    return member->length == text->length && equal_bytes(json->text + member->name, json->text + text->at, text->length);
}

static int add_member(struct member member) {
    if (member_count == MAX_PROPERTIES)
        return refuse("properties", "at most 1024");
    members[member_count++] = member;
    return 1;
}

static int require(const struct json *json, const struct json_node *name, uint32_t additional) {
    if (name->kind != JSON_TEXT)
        return refuse("required", "a list of names");
    for (uint32_t i = 0; i < member_count; i++)
        if (is_named(json, &members[i], name)) {
            members[i].is_required = 1;
            return 1;
        }
    return add_member((struct member){.name = name->at, .length = name->length, .schema = additional, .is_required = 1});
}

static int find_members(const struct json *json, const struct keywords *found) {
    uint32_t properties = found->node[KEY_PROPERTIES], required = found->node[KEY_REQUIRED];
    member_count = 0;
    if (properties && json->nodes[properties].kind != JSON_OBJECT)
        return refuse("properties", "an object");
    if (required && json->nodes[required].kind != JSON_ARRAY)
        return refuse("required", "a list of names");
    for (uint32_t i = json->nodes[properties].first; properties && i; i = json->nodes[i].next)
        if (!add_member((struct member){json->nodes[i].key, json->nodes[i].key_length, i, 0, 1}))
            return 0;
    for (uint32_t i = json->nodes[required].first; required && i; i = json->nodes[i].next)
        if (!require(json, &json->nodes[i], found->node[KEY_ADDITIONAL]))
            return 0;
    return 1;
}

/* Whether members may follow that no property names: without `additionalProperties` only where there are no properties. */
static int takes_others(const struct json *json, const struct keywords *found) {
    uint32_t additional = found->node[KEY_ADDITIONAL];
    return additional ? !is_false(json, additional) : !found->node[KEY_PROPERTIES];
}

uint32_t object_states(const struct json *json, const struct keywords *found, uint32_t next) {
    uint32_t closed = range_state('}', '}', next);
    uint32_t empty = closed, more = closed; /* what follows no member, and what follows one */
    if (!find_members(json, found))
        return DEAD_STATE;
    if (takes_others(json, found)) {
        uint32_t loop = open_state(), value = spaced(':', value_of(found->node[KEY_ADDITIONAL], loop));
        uint32_t other = member_count ? other_name(json, value) : string_states(value);
        close_state(loop, spaced(',', other), closed);
        more = loop;
        empty = split_state(other, closed);
    }
    for (uint32_t i = member_count; i-- > 0 && may_build();) {
        const struct member *member = &members[i];
        uint32_t value = is_false(json, member->schema) ? DEAD_STATE : spaced(':', value_of(member->schema, more));
        uint32_t this = value == DEAD_STATE ? value : quoted(json->text + member->name, member->length, value);
        uint32_t after = this == DEAD_STATE ? this : spaced(',', this);
        more = member->is_required ? after : split_state(after, more);
        empty = member->is_required ? this : split_state(this, empty);
    }
    return range_state('{', '{', empty);
}

/* ---- arrays ---- */

uint32_t array_states(const struct json *json, const struct keywords *found, uint32_t next) {
    uint32_t schemas[MAX_ITEMS], count = 0, least = 0, most = NO_BOUND, rest = found->node[KEY_ITEMS];
    uint32_t prefix = found->node[KEY_PREFIX_ITEMS], end = range_state(']', ']', next);
    if (!whole_limit(json, found, KEY_MIN_ITEMS, MAX_ITEMS, &least) || !whole_limit(json, found, KEY_MAX_ITEMS, MAX_ITEMS, &most))
        return DEAD_STATE;
    if (prefix && json->nodes[prefix].kind != JSON_ARRAY)
        return (uint32_t)refuse("prefixItems", "a list of schemas") + DEAD_STATE;
    for (uint32_t i = json->nodes[prefix].first; prefix && i; i = json->nodes[i].next) {
        if (count == MAX_ITEMS)
            return (uint32_t)refuse("prefixItems", "at most 1024 schemas") + DEAD_STATE;
        schemas[count++] = i;
    }
    if (is_false(json, rest) && most > count)
        most = count;
    if (least > most)
        return DEAD_STATE;
    uint32_t settled = count > least ? count : least, state; /* items after which each is like the one before */
    settled = settled > 0 ? settled : 1;
    uint32_t items = most == NO_BOUND ? settled : most;
    if (most == NO_BOUND) {
        state = open_state();
        close_state(state, spaced(',', value_of(rest, state)), end);
    } else
        state = end;
    for (uint32_t at = items; at-- > 0 && may_build();) { /* `state` is what follows at + 1 items */
        uint32_t schema = at < count ? schemas[at] : rest;
        uint32_t item = is_false(json, schema) ? DEAD_STATE : value_of(schema, state);
        if (at > 0 && item != DEAD_STATE)
            item = spaced(',', item);
        state = at >= least ? split_state(item, end) : item;
    }
    return range_state('[', '[', state);
}
