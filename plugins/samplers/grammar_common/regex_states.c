/* The parts of a pattern are copied into states as often as their repetitions say. The builder calls itself once for each
 * group within a group, at most MAX_GROUPS deep. */
#include "characters.h"
#include "regex_tree.h"
#include "sealhost_guest.h"
#include "states.h"

#define COUNTED_COPIES 8u /* of a set: fewer are written out, so that short texts open no calls */

static enum regex_form form;

static uint32_t any_states(uint32_t next) {
    static struct characters all = {.count = 1, .ranges = {{0, LAST_CHARACTER}}};
    return character_states(&all, form & REGEX_STRING, form & REGEX_COUNTED ? tick_state(next) : next);
}

/* A loop whose letters all plain tokens may spell: `letter` reads one and goes on at `again`, which nothing else goes to,
 * so that no other state is taken for one of the loop's (states.c looks back for equal ones). */
static uint32_t plain_loop(uint32_t letter, uint32_t again, uint32_t loop, uint32_t next) {
    close_state(again, loop, DEAD_STATE);
    close_state(loop, letter, next);
    if (form & REGEX_STRING)
        mark_plain(letter, LETTER_OF_LOOP, 0);
    return loop;
}

/* Any text, then `next`. */
static uint32_t anything(uint32_t next) {
    uint32_t loop = open_state(), again = open_state();
    return plain_loop(any_states(again), again, loop, next);
}

static uint32_t group_states(const struct item *group, uint32_t next, int outermost);

static uint32_t once(const struct item *item, uint32_t next) {
    static struct characters set;
    if (item->is_group)
        return group_states(item, next, 0);
    set.count = item->count;
    for (uint32_t i = 0; i < item->count; i++) {
        set.ranges[i].low = pool[item->a + i].low;
        set.ranges[i].high = pool[item->a + i].high;
    }
    return character_states(&set, form & REGEX_STRING, form & REGEX_COUNTED ? tick_state(next) : next);
}

/* Whether it is a set that has all characters of plain tokens (trie.h). */
static int is_plain(const struct item *item) {
    if (item->is_group || !(form & REGEX_STRING))
        return 0;
    uint32_t from = 0x20; /* the first that is not known to be in it */
    for (uint32_t i = 0; i < item->count; i++) {
        uint32_t low = pool[item->a + i].low, high = pool[item->a + i].high;
        while (from < low && (from == '"' || from == '\\'))
            from++;
        if (from < low)
            return 0;
        from = high >= from ? high + 1 : from;
    }
    return from > LAST_CHARACTER;
}

/* One of a set's characters, again and again, as a rule whose turns are counted outside of its states. */
static uint32_t counted(const struct item *item, uint32_t next) {
    struct count count = {.most = item->most, .least = item->least};
    uint32_t loop = open_state(), turn = tick_state(loop), letter = once(item, turn);
    close_state(loop, letter, RETURN_STATE);
    if (is_plain(item))
        mark_plain(letter, LETTER_OF_LOOP, LETTER_BEGIN);
    return letter == DEAD_STATE ? letter : count_state(loop, count, next);
}

static uint32_t repeated(const struct item *item, uint32_t next) {
    uint32_t state = next;
    if (form & REGEX_CALLS && !item->is_group && item->most >= COUNTED_COPIES && item->most != FOR_EVER)
        return counted(item, next);
    if (item->most == FOR_EVER) {
        uint32_t loop = open_state(), again = is_plain(item) ? open_state() : loop;
        state = loop;
        if (again != loop)
            plain_loop(once(item, again), again, loop, next);
        else
            close_state(loop, once(item, loop), next);
    } else
        for (uint32_t i = item->least; i < item->most && may_build(); i++)
            state = split_state(once(item, state), next);
    for (uint32_t i = 0; i < item->least && may_build(); i++)
        state = once(item, state);
    return state;
}

static uint32_t group_states(const struct item *group, uint32_t next, int outermost) {
    uint32_t all = DEAD_STATE;
    int searches = outermost && form & REGEX_FIND, starts = form & REGEX_FROM_START;
    for (uint32_t i = group->a; i != NONE && may_build(); i = items[i].before) {
        uint32_t state = searches && !items[i].ends ? anything(next) : next;
        for (uint32_t item = items[i].a; item != NONE && may_build(); item = items[item].before)
            state = repeated(&items[item], state);
        all = split_state(searches && !starts && !items[i].starts ? anything(state) : state, all);
    }
    return all;
}

uint32_t tree_states(uint32_t whole, enum regex_form how, uint32_t next) {
    form = how;
    return group_states(&items[whole], next, 1);
}
