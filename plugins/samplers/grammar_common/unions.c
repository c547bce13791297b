/* The subset construction over all automata at once. A set knows where letters end: where some have to take a text, by their
 * TICKs; otherwise by one more automaton that reads any text, so that none gets lost. */
#include "unions.h"

#include "characters.h"
#include "product.h"
#include "sealhost_guest.h"

#define BUCKETS 4096u

struct set unions[MAX_PLACES];
struct way ways[MAX_WAYS];
static uint32_t members[PLACE_MEMBERS], buckets[BUCKETS];
static uint16_t way_of_class[MAX_PLACES][256]; /* the set that a set goes to */
static uint32_t union_count, way_count, member_count;
static uint32_t starts[MAX_TOGETHER + 1], ends[MAX_TOGETHER + 1], automata; /* the last is that of any text */
static uint32_t takers_needed;

/* the set that is being made */
static uint32_t seen[MAX_STATES], seen_count, round_of[MAX_STATES], round;
static uint32_t takers;
static int is_whole;

void unions_begin(uint32_t needed) {
    takers_needed = needed;
    automata = 0;
}

uint32_t together_end(void) {
    return ends[automata] = open_state();
}

void together_add(uint32_t start) {
    starts[automata++] = start;
}

uint32_t together_all(void) {
    return (1u << automata) - 1;
}

/* ---- sets ---- */

static void begin_set(void) {
    round++;
    seen_count = takers = 0;
    is_whole = 0;
}

static void see(uint32_t state) {
    if (round_of[state] == round || state == DEAD_STATE)
        return;
    round_of[state] = round;
    seen[seen_count++] = state;
}

/* The automaton that a state is of, or the end of: those of one are numbered in a row. */
static uint32_t automaton_of(uint32_t state) {
    uint32_t n = automata;
    while (n > 0 && state < ends[n])
        n--;
    return n;
}

/* Whether each automaton that has to take the text goes on with the states that were seen. */
static int needed_live(void) {
    uint32_t alive = takers;
    for (uint32_t i = 0; i < seen_count && (alive & takers_needed) != takers_needed; i++)
        alive |= 1u << automaton_of(seen[i]);
    return (alive & takers_needed) == takers_needed;
}

/* Follows splits and leaves the byte states, in order. */
static void follow(void) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < seen_count && may_step(); i++) {
        const struct state *state = &states[seen[i]];
        if (state->kind == STATE_TICK) {
            is_whole = 1;
            see(state->b);
        }
        if (state->kind != STATE_SPLIT)
            continue;
        see(state->a);
        see(state->b);
        uint32_t n = automaton_of(seen[i]);
        if (seen[i] == ends[n]) {
            is_whole |= n == automata;
            takers |= n == automata ? 0 : 1u << n;
        }
    }
    for (uint32_t i = 0; i < seen_count; i++) {
        uint32_t state = seen[i], at = kept;
        if (states[state].kind != STATE_BYTE)
            continue;
        for (; at > 0 && seen[at - 1] > state && may_step(); at--)
            seen[at] = seen[at - 1];
        seen[at] = state;
        kept++;
    }
    seen_count = kept;
}

static int same_members(const struct set *set) {
    for (uint32_t i = 0; i < seen_count; i++)
        if (members[set->first + i] != seen[i])
            return 0;
    return set->count == seen_count && set->takers == takers && set->is_whole == is_whole;
}

static uint32_t set_of_seen(void) {
    uint32_t hash = takers;
    if (!seen_count && !is_whole)
        return 0;
    for (uint32_t i = 0; i < seen_count; i++)
        hash = (hash ^ seen[i]) * 0x9e3779b1u ^ hash >> 15;
    uint32_t *bucket = &buckets[(hash >> 8) % BUCKETS];
    for (uint32_t i = *bucket; i && may_step(); i = unions[i].chain)
        if (unions[i].count == seen_count && same_members(&unions[i]))
            return i;
    if (union_count == MAX_PLACES || member_count + seen_count > PLACE_MEMBERS) {
        build_problem = "ways to read one text";
        return 0;
    }
    unions[union_count] = (struct set){
        .first = member_count, .count = seen_count, .takers = (uint16_t)takers, .is_whole = (uint8_t)is_whole, .chain = *bucket};
    for (uint32_t i = 0; i < seen_count; i++)
        members[member_count++] = seen[i];
    return *bucket = union_count++;
}

static uint32_t set_after(const struct set *set, uint32_t class) {
    begin_set();
    for (uint32_t i = 0; i < set->count && (i % 2 || may_step()); i++)
        if (set_has(&sets[states[members[set->first + i]].a], class_byte[class]))
            see(states[members[set->first + i]].b);
    if (!seen_count || !needed_live())
        return 0;
    follow();
    return set_of_seen();
}

/* Finds the ways from a set: the bytes that lead to each other one. */
static void find_ways(uint32_t index) {
    uint16_t *to = way_of_class[index];
    unions[index].first_way = way_count;
    for (uint32_t class = 0; class < class_count && may_step(); class++) {
        uint32_t found = set_after(&unions[index], class), way = unions[index].first_way;
        to[class] = (uint16_t)found;
        while (way < way_count && ways[way].to != found)
            way++;
        if (!found || way < way_count)
            continue;
        if (way_count == MAX_WAYS) {
            build_problem = "ways to read one text";
            return;
        }
        ways[way_count++] = (struct way){.to = found};
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (uint32_t way = unions[index].first_way; way < way_count; way++)
            if (ways[way].to == to[class_of[byte]])
                set_add(&ways[way].bytes, byte, byte);
    unions[index].way_count = way_count - unions[index].first_way;
}

uint32_t unions_meet(void) {
    static const struct characters every = {.count = 1, .ranges = {{0, LAST_CHARACTER}}};
    uint32_t loop = open_state();
    starts[automata] = loop;
    ends[automata] = open_state();
    if (!takers_needed)
        close_state(loop, character_states(&every, 1, loop), ends[automata]);
    if (build_problem)
        return 0;
    find_classes();
    clear_bytes(buckets, sizeof buckets);
    union_count = 1;
    member_count = way_count = 0;
    begin_set();
    for (uint32_t n = 0; n <= automata; n++)
        see(starts[n]);
    follow();
    is_whole = 1;
    uint32_t first = set_of_seen();
    for (uint32_t i = 1; i < union_count && may_build(); i++)
        find_ways(i);
    return first;
}

int is_plain_loop(uint32_t set) {
    for (uint32_t byte = 0x20; byte < 0x7f; byte++)
        if (byte != '"' && byte != '\\' && way_of_class[set][class_of[byte]] != set)
            return 0;
    for (uint32_t lead = 0xc2; lead < 0xf5; lead++) {
        uint32_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3, at = way_of_class[set][class_of[lead]];
        uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        for (; more > 0; more--, low = 0x80, high = 0xbf) {
            uint32_t next = way_of_class[at][class_of[low]]; /* where some of the bytes lead elsewhere, this is not known to be a loop */
            for (uint32_t byte = low; byte <= high; byte++)
                if (way_of_class[at][class_of[byte]] != next)
                    return 0;
            at = next;
        }
        if (at != set)
            return 0;
    }
    return 1;
}

int takes_text(uint32_t start, uint32_t end, const uint8_t *text, uint32_t length) {
    automata = 0;
    ends[0] = DEAD_STATE; /* no automaton is told apart here */
    begin_set();
    see(start);
    follow();
    for (uint32_t i = 0; i < length && may_build(); i++) {
        uint32_t count = seen_count, now = 0;
        for (; now < count; now++)
            members[now] = seen[now];
        begin_set();
        for (now = 0; now < count; now++)
            if (set_has(&sets[states[members[now]].a], text[i]))
                see(states[members[now]].b);
        follow();
    }
    return round_of[end] == round;
}
