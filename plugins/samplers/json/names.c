/* Names of members: which schemas each has to fit, and those that no property has. */
#include "names.h"

#include "characters.h"
#include "naming.h"
#include "product.h"
#include "regex.h"
#include "schema.h"
#include "sealhost_guest.h"
#include "states.h"
#include "strings.h"
#include "values.h"

#define MAX_PATTERNS (MAX_TOGETHER - 1u)

struct name_pattern {
    uint32_t node, own;   /* its schema, whose key it is; which of the limits has it */
    uint32_t start, end;  /* of what finds it in a name */
};

struct member members[MAX_PROPERTIES];
uint32_t member_count;
static uint32_t order[2][MAX_PROPERTIES];
static struct name_pattern patterns[MAX_PATTERNS];
static uint32_t pattern_count;

/* ---- properties and patterns ---- */

static int is_name(const struct json *json, uint32_t node, const struct member *member) {
    return json->nodes[node].key_length == member->length &&
           equal_bytes(json->text + json->nodes[node].key, json->text + member->name, member->length);
}

/* The member with a name, which is added where there is none; 0: too many. */
static struct member *member_named(const struct json *json, uint32_t name, uint32_t length, int is_new) {
    for (uint32_t i = 0; i < member_count && !is_new && may_step(); i++)
        if (members[i].length == length && equal_bytes(json->text + members[i].name, json->text + name, length))
            return &members[i];
    if (member_count == MAX_PROPERTIES) {
        refuse("properties", "at most 1024");
        return 0;
    }
    members[member_count] = (struct member){.name = name, .length = length, .own = NO_OWN};
    return &members[member_count++];
}

static int find_properties(const struct limits *limits) {
    const struct json *json = limits->json;
    member_count = 0;
    for (uint32_t own = 0; own < limits->count; own++) {
        uint32_t properties = limits->of[own]->node[KEY_PROPERTIES];
        int is_first = member_count == 0;
        for (uint32_t i = properties ? json->nodes[properties].first : NO_NODE; i; i = json->nodes[i].next) {
            struct member *member = member_named(json, json->nodes[i].key, json->nodes[i].key_length, is_first);
            if (!member || !may_build())
                return 0;
            if (member->own == NO_OWN)
                member->own = own, member->node = i;
        }
    }
    for (uint32_t own = 0; own < limits->count; own++) {
        uint32_t required = limits->of[own]->node[KEY_REQUIRED];
        for (uint32_t i = required ? json->nodes[required].first : NO_NODE; i; i = json->nodes[i].next) {
            struct member *member = member_named(json, json->nodes[i].at, json->nodes[i].length, 0);
            if (!member || !may_build())
                return 0;
            member->is_required = 1;
        }
    }
    return 1;
}

static int find_patterns(const struct limits *limits) {
    const struct json *json = limits->json;
    pattern_count = 0;
    for (uint32_t own = 0; own < limits->count; own++) {
        uint32_t list = limits->of[own]->node[KEY_PATTERN_PROPERTIES];
        for (uint32_t i = list ? json->nodes[list].first : NO_NODE; i; i = json->nodes[i].next) {
            if (pattern_count == MAX_PATTERNS)
                return refuse("patternProperties", "at most 9 patterns for the names of one object");
            uint32_t end = open_state();
            uint32_t start = pattern_of(json->text + json->nodes[i].key, json->nodes[i].key_length, REGEX_FIND, end);
            patterns[pattern_count++] = (struct name_pattern){i, own, start, end};
            if (is_refused)
                return 0;
        }
    }
    return 1;
}

const struct member *member_with(const struct json *json, uint32_t name, uint32_t length) {
    for (uint32_t i = 0; i < member_count && may_step(); i++)
        if (members[i].length == length && equal_bytes(json->text + members[i].name, json->text + name, length))
            return &members[i];
    return 0;
}

/* Which patterns a name matches. */
static uint32_t matched_by(const struct json *json, uint32_t name, uint32_t length) {
    uint32_t matched = 0;
    for (uint32_t i = 0; i < pattern_count; i++)
        if (takes_text(patterns[i].start, patterns[i].end, json->text + name, length))
            matched |= 1u << i;
    return matched;
}

static int other_parts(const struct limits *limits, uint32_t matched, struct parts *parts);

/* Names that are listed are members like any others, where others may be. */
static int add_listed(const struct limits *limits) {
    static struct parts parts;
    for (uint32_t i = 0; naming == NAMES_LISTED && i < listed_count && may_build(); i++) {
        const struct json_node *node = &limits->json->nodes[listed[i]];
        if (!member_with(limits->json, node->at, node->length) && other_parts(limits, matched_by(limits->json, node->at, node->length), &parts) && !member_named(limits->json, node->at, node->length, 1))
            return 0;
    }
    return 1;
}

int find_names(const struct limits *limits) {
    if (!find_properties(limits) || !find_patterns(limits) || !find_naming(limits))
        return 0;
    for (uint32_t i = 0; i < member_count && naming != NAMES_ANY && may_build(); i++)
        members[i].is_never = (uint8_t)!name_fits(limits->json, members[i].name, members[i].length);
    return add_listed(limits) && !is_refused;
}

/* The schema that one of the limits has for a member by its name; NO_NODE: none. */
static uint32_t property_of(const struct limits *limits, uint32_t own, const struct member *member) {
    uint32_t properties = limits->of[own]->node[KEY_PROPERTIES];
    if (member->own == own)
        return member->node;
    if (member->own == NO_OWN || own < member->own || !properties)
        return NO_NODE;
    for (uint32_t i = limits->json->nodes[properties].first; i && may_step(); i = limits->json->nodes[i].next)
        if (is_name(limits->json, i, member))
            return i;
    return NO_NODE;
}

void member_parts(const struct limits *limits, const struct member *member, struct parts *parts) {
    uint32_t matched = matched_by(limits->json, member->name, member->length);
    for (uint32_t own = 0; own < limits->count; own++) {
        uint32_t property = property_of(limits, own, member), count = 0;
        if (property)
            add_part(parts, property, PART_SCHEMA);
        for (uint32_t i = 0; i < pattern_count; i++)
            if (patterns[i].own == own && matched >> i & 1) {
                add_part(parts, patterns[i].node, PART_SCHEMA);
                count++;
            }
        if (!property && !count && limits->of[own]->node[KEY_ADDITIONAL])
            add_part(parts, limits->of[own]->node[KEY_ADDITIONAL], PART_SCHEMA);
    }
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

/* The schemas of members whose name these patterns match; 0: there are no such members. */
static int other_parts(const struct limits *limits, uint32_t matched, struct parts *parts) {
    int is_said = matched != 0, is_listed = 0; /* some schema says that there may be others; or lists which there are */
    parts->count = 0;
    for (uint32_t own = 0; own < limits->count; own++) {
        const uint32_t *node = limits->of[own]->node;
        uint32_t count = 0;
        for (uint32_t i = 0; i < pattern_count; i++)
            if (patterns[i].own == own && matched >> i & 1) {
                add_part(parts, patterns[i].node, PART_SCHEMA);
                count++;
            }
        if (!count && node[KEY_ADDITIONAL]) {
            if (limits->json->nodes[node[KEY_ADDITIONAL]].kind == JSON_FALSE)
                return 0;
            add_part(parts, node[KEY_ADDITIONAL], PART_SCHEMA);
            is_said = 1;
        }
        is_listed |= node[KEY_PROPERTIES] || node[KEY_PATTERN_PROPERTIES];
    }
    return is_said || !is_listed;
}

/* The same where there are patterns or limits: the names that none of the members has and that all limits take, told apart by the
 * patterns that they match. */
static uint32_t matched_states(const struct limits *limits, uint32_t next) {
    static struct parts parts;
    struct text_automata names = {0};
    if (naming == NAMES_LIMITED && !find_automata(&name_limits, &names))
        return DEAD_STATE;
    if (names.needed + 1 + pattern_count + names.unwanted > MAX_TOGETHER)
        return (uint32_t)refuse("propertyNames", "fewer patterns for the names of one object") + DEAD_STATE;
    together_begin(names.needed, names.least, 0);
    if (names.needed)
        add_needed_automata();
    uint32_t end = together_end(), taken = DEAD_STATE;
    for (uint32_t i = 0; i < member_count && may_build(); i++)
        taken = split_state(spelled(limits->json->text + members[i].name, members[i].length, end), taken);
    together_add(taken);
    for (uint32_t i = 0; i < pattern_count && !is_refused; i++) {
        const struct json_node *node = &limits->json->nodes[patterns[i].node];
        end = together_end();
        together_add(pattern_of(limits->json->text + node->key, node->key_length, REGEX_SEARCH, end));
    }
    if (names.unwanted)
        add_unwanted_automata();
    if (is_refused || !together_meet())
        return DEAD_STATE;
    uint32_t needed = (1u << names.needed) - 1; /* the bit after these: a member has the name; then one for each pattern */
    for (uint32_t matched = 0; matched < 1u << pattern_count; matched++) {
        uint32_t takers = needed | matched << (names.needed + 1);
        if (!has_answer[takers] || !other_parts(limits, matched, &parts))
            continue;
        uint32_t value = value_states(limits->json, &parts, next);
        if (value != DEAD_STATE)
            answers[takers] = range_state('"', '"', spaced(':', value));
    }
    uint32_t start = together_states();
    return start == DEAD_STATE ? start : range_state('"', '"', start);
}

uint32_t other_states(const struct limits *limits, uint32_t next) {
    static struct parts parts;
    if (naming >= NAMES_LISTED)
        return DEAD_STATE;
    if (pattern_count > 0 || naming == NAMES_LIMITED)
        return matched_states(limits, next);
    uint32_t value = other_parts(limits, 0, &parts) ? value_states(limits->json, &parts, next) : DEAD_STATE;
    if (value == DEAD_STATE)
        return value;
    value = spaced(':', value);
    return member_count ? other_name(limits->json, value) : string_states(value);
}
