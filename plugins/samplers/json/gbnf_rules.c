/* Rules by their names, and what is known of them before they become states: which may be empty, which come to themselves
 * without reading. */
#include "gbnf_tree.h"
#include "sealhost_guest.h"

#define NAME_PLACES (4u * GBNF_RULES)
#define SHOWN 64u      /* letters of a name that a message shows */
#define CYCLE_NAMES 6u /* of a left recursion that a message shows */

static uint16_t name_places[NAME_PLACES]; /* open addressing: 1 + number of a rule, 0: free */
static uint32_t queue[GBNF_PARTS], queued;
static uint16_t waiting[GBNF_PARTS]; /* of a sequence: parts not known to be empty */
static uint8_t colour[GBNF_RULES];   /* 0: not met, 1: on the way, 2: done */
static struct way {
    uint32_t rule, part; /* the next of its parts to be looked at */
} way[GBNF_RULES];
static uint32_t way_count;

/* ---- names ---- */

void gbnf_forget_names(void) {
    grammar.rule_count = 0;
    clear_bytes(name_places, sizeof name_places);
}

/* Where a name stands, or would stand. */
static uint16_t *place_of(const uint8_t *name, uint32_t length) {
    uint32_t hash = length;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ name[i]) * 0x9e3779b1u ^ hash >> 15;
    uint32_t place = hash >> 8;
    for (; name_places[place %= NAME_PLACES]; place++) {
        const struct rule *rule = &grammar.rules[name_places[place] - 1];
        if (rule->length == length && equal_bytes(grammar.text + rule->at, name, length))
            break;
    }
    return &name_places[place];
}

uint32_t gbnf_named(uint32_t at, uint32_t length) {
    uint16_t *place = place_of(grammar.text + at, length);
    if (!*place && grammar.rule_count < GBNF_RULES) {
        grammar.rules[grammar.rule_count] = (struct rule){.at = at, .length = length};
        *place = (uint16_t)++grammar.rule_count;
    }
    return *place ? *place - 1u : NO_RULE;
}

uint32_t gbnf_root(void) {
    uint16_t found = *place_of((const uint8_t *)"root", 4);
    return found ? found - 1u : NO_RULE;
}

void gbnf_name(uint32_t rule) {
    uint32_t length = grammar.rules[rule].length;
    error_bytes(grammar.text + grammar.rules[rule].at, length < SHOWN ? length : SHOWN);
}

static void check_names(void) {
    for (uint32_t i = 0; i < grammar.rule_count; i++)
        if (!grammar.rules[i].body) {
            if (gbnf_refuse(SEALHOST_ERROR_INPUT, grammar.rules[i].at, "a rule that is defined, got "))
                gbnf_name(i);
            return;
        }
    if (gbnf_root() == NO_RULE && gbnf_refuse(SEALHOST_ERROR_INPUT, grammar.length, "a rule named root"))
        error_text(", got the end without one");
}

/* ---- the empty text ---- */

static void is_empty(uint32_t part) {
    if (grammar.parts[part].is_empty)
        return;
    grammar.parts[part].is_empty = 1;
    queue[queued++] = part;
}

/* Each part that turns out to be empty is handled once. */
static void find_empty(void) {
    queued = 0;
    for (uint32_t i = 1; i < grammar.part_count; i++)
        waiting[i] = 0;
    for (uint32_t i = 1; i < grammar.part_count; i++) {
        const struct part *part = &grammar.parts[i];
        waiting[part->whole]++;
        if (part->least == 0 || (part->kind == PART_TEXT && part->count == 0) || (part->kind == PART_SEQUENCE && !part->a))
            is_empty(i);
    }
    for (uint32_t i = 0; i < queued; i++) {
        const struct part *part = &grammar.parts[queue[i]];
        if (part->kind == PART_SEQUENCE)
            is_empty(part->whole);
        else if (part->whole) {
            if (--waiting[part->whole] == 0)
                is_empty(part->whole);
        } else
            for (uint32_t named = grammar.rules[part->count].named; named; named = grammar.parts[named].alike)
                is_empty(named);
    }
}

/* ---- left recursion ---- */

/* Parts of a sequence may stand at its beginning up to the first that is never empty. */
static void find_left_of(const struct part *sequence) {
    uint32_t first = sequence->a;
    for (uint32_t i = sequence->a; i; i = grammar.parts[i].before)
        if (!grammar.parts[i].is_empty)
            first = i;
    for (uint32_t i = sequence->a; i; i = grammar.parts[i].before)
        grammar.parts[i].is_left = i <= first && grammar.parts[i].most > 0;
}

static void find_left(void) {
    for (uint32_t i = grammar.part_count; i-- > 1;) {
        struct part *part = &grammar.parts[i];
        if (part->kind == PART_GROUP && !part->whole)
            part->is_left = 1;
        if (!part->is_left)
            continue;
        if (part->kind == PART_SEQUENCE)
            find_left_of(part);
        for (uint32_t j = part->kind == PART_GROUP ? part->a : NO_PART; j; j = grammar.parts[j].before)
            grammar.parts[j].is_left = 1;
    }
}

static void begin_way(uint32_t rule) {
    colour[rule] = 1;
    way[way_count++] = (struct way){rule, grammar.rules[rule].first};
}

/* The next rule that the last one on the way names, NO_RULE: there is none left; *part is where. */
static uint32_t next_named(int only_left, uint32_t *part) {
    struct way *last = &way[way_count - 1];
    while (last->part < grammar.rules[last->rule].end) {
        const struct part *found = &grammar.parts[*part = last->part++];
        if (found->kind == PART_RULE && (found->is_left || !only_left))
            return found->a;
    }
    return NO_RULE;
}

static void refuse_cycle(uint32_t rule, uint32_t part) {
    uint32_t from = way_count, shown = 0;
    if (!gbnf_refuse(SEALHOST_ERROR_INPUT, grammar.parts[part].at, "no left recursion, got "))
        return;
    while (way[--from].rule != rule)
        ;
    for (; from < way_count; from++)
        if (shown++ < CYCLE_NAMES) {
            gbnf_name(way[from].rule);
            error_text(", which begins with ");
        }
    error_text(shown > CYCLE_NAMES ? "others, until it comes to " : "");
    gbnf_name(rule);
}

static void check_left(uint32_t from) {
    uint32_t part;
    begin_way(from);
    while (way_count > 0) {
        uint32_t rule = next_named(1, &part);
        if (rule == NO_RULE)
            colour[way[--way_count].rule] = 2;
        else if (!colour[rule])
            begin_way(rule);
        else if (colour[rule] == 1) {
            refuse_cycle(rule, part);
            return;
        }
    }
}

void gbnf_check(void) {
    check_names();
    if (gbnf_status)
        return;
    find_empty();
    find_left();
    clear_bytes(colour, sizeof colour);
    way_count = 0;
    for (uint32_t i = 0; i < grammar.rule_count && !gbnf_status; i++)
        if (!colour[i])
            check_left(i);
}

uint32_t gbnf_order(uint32_t root, uint32_t *order) {
    uint32_t count = 0, part;
    clear_bytes(colour, sizeof colour);
    way_count = 0;
    begin_way(root);
    while (way_count > 0) {
        uint32_t rule = next_named(0, &part);
        if (rule == NO_RULE)
            order[count++] = way[--way_count].rule;
        else if (!colour[rule])
            begin_way(rule);
    }
    return count;
}
