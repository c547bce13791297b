/* A pattern is read into a tree, whose parts are copied into states as often as their repetitions say. The parser and
 * the builder call themselves once for each group within a group, at most MAX_GROUPS deep. */
#include "regex.h"

#include "characters.h"
#include "sealhost_guest.h"
#include "states.h"

#define MAX_ITEMS 32768u
#define POOL 16384u
#define FOR_EVER 0xffffu
#define NONE 0xffffffffu

struct item {
    uint8_t is_group;
    uint8_t starts, ends; /* of an alternative: it had ^, $ */
    uint16_t least, most; /* repetitions */
    uint32_t a;           /* a set: its first range. A group: its last alternative. An alternative: its last item */
    uint32_t count;       /* a set: its ranges */
    uint32_t before;      /* the item or alternative before it, NONE: it is the first */
};

const char *regex_problem;
uint32_t regex_problem_at;

static struct item items[MAX_ITEMS];
static struct {
    uint32_t low, high;
} pool[POOL];
static uint32_t item_count, pool_count;
static const uint8_t *pattern;
static uint32_t pattern_length, at;
static enum regex_form form;
static struct characters set;

static uint32_t wrong(const char *what) {
    if (!regex_problem) {
        regex_problem = what;
        regex_problem_at = at;
    }
    at = pattern_length;
    return NONE;
}

static int look(uint8_t byte) {
    return at < pattern_length && pattern[at] == byte;
}

static int take(uint8_t byte) {
    if (!look(byte))
        return 0;
    at++;
    return 1;
}

static void add_range(uint32_t low, uint32_t high) {
    if (!may_step() || !add_characters(&set, low, high))
        wrong("a class with at most 512 ranges");
}

static uint32_t new_item(struct item item) {
    if (item_count == MAX_ITEMS || !may_step())
        return wrong("a shorter pattern");
    items[item_count] = item;
    return item_count++;
}

static uint32_t set_item(void) {
    join_characters(&set);
    if (pool_count + set.count > POOL)
        return wrong("fewer classes");
    for (uint32_t i = 0; i < set.count; i++) {
        pool[pool_count + i].low = set.ranges[i].low;
        pool[pool_count + i].high = set.ranges[i].high;
    }
    pool_count += set.count;
    return new_item((struct item){.least = 1, .most = 1, .a = pool_count - set.count, .count = set.count});
}

/* ---- escapes ---- */

static uint32_t hex(uint32_t digits) {
    uint32_t found = 0;
    for (; digits > 0; digits--) {
        uint32_t c = at < pattern_length ? pattern[at] : 0, low = c | 0x20;
        if (c >= '0' && c <= '9')
            found = found * 16 + c - '0';
        else if (low >= 'a' && low <= 'f')
            found = found * 16 + low - 'a' + 10;
        else
            return wrong("hexadecimal digits");
        at++;
    }
    return found;
}

/* Adds the ASCII class of \d, \w or \s, or for the capital letter all others; 0: the letter names none. */
static int add_named(uint8_t letter) {
    struct characters outer;
    uint8_t low = letter | 0x20;
    if (low != 'd' && low != 'w' && low != 's')
        return 0;
    copy_bytes(&outer, &set, sizeof set);
    set.count = 0;
    if (low == 's') {
        add_range('\t', '\r');
        add_range(' ', ' ');
    } else
        add_range('0', '9');
    if (low == 'w') {
        add_range('A', 'Z');
        add_range('_', '_');
        add_range('a', 'z');
    }
    if (letter != low)
        invert_characters(&set);
    for (uint32_t i = 0; i < outer.count; i++)
        add_range(outer.ranges[i].low, outer.ranges[i].high);
    return 1;
}

/* The character of an escape that stands for one; the backslash and no class letter have been seen. */
static uint32_t escaped(void) {
    uint8_t c = pattern[at++];
    static const uint8_t letters[] = "tnvfr";
    for (uint32_t i = 0; i < 5; i++)
        if (c == letters[i])
            return '\t' + i;
    if (c == 'x')
        return hex(2);
    if (c == 'u')
        return hex(4);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80) {
        at--;
        return wrong("an escape of the subset (no back-references, \\b, \\p and the like)");
    }
    return c;
}

/* One end of a range, or a whole class such as \d, which is added: then NONE. */
static uint32_t class_end(void) {
    if (!take('\\'))
        return read_character(pattern, pattern_length, &at);
    if (at == pattern_length)
        return wrong("a character after the backslash");
    if (add_named(pattern[at])) {
        at++;
        return NONE;
    }
    return escaped();
}

static uint32_t class_item(void) {
    int inverted = take('^');
    set.count = 0;
    for (int first = 1; first || !look(']'); first = 0) {
        if (at >= pattern_length)
            return wrong("] at the end of a class");
        uint32_t low = class_end(), high = low;
        if (low == NONE)
            continue;
        if (look('-') && at + 1 < pattern_length && pattern[at + 1] != ']') {
            at++;
            high = class_end();
            if (high == NONE || high < low)
                return wrong("a range from a lower character to a higher one");
        }
        add_range(low, high);
    }
    if (!take(']'))
        return wrong("] at the end of a class");
    if (inverted && !invert_characters(&set))
        return wrong("a class with at most 512 ranges");
    return set_item();
}

/* ---- the tree ---- */

static uint32_t group_item(uint32_t depth);

static uint32_t atom(uint32_t depth) {
    set.count = 0;
    if (take('['))
        return class_item();
    if (take('(')) {
        if (take('?') && !take(':'))
            return wrong("a plain group: no look-around, names or flags");
        uint32_t group = depth == MAX_GROUPS ? wrong("fewer groups within groups") : group_item(depth + 1);
        return take(')') ? group : wrong(") at the end of a group");
    }
    if (take('.')) {
        add_range(0, '\n' - 1);
        add_range('\n' + 1, LAST_CHARACTER);
        return set_item();
    }
    if (look('*') || look('+') || look('?') || look('{') || look('^') || look('$') || look(']') || look('}'))
        return wrong("a character, class or group before it, or a backslash");
    uint32_t c = class_end();
    if (c != NONE)
        add_range(c, c);
    return set.count ? set_item() : NONE;
}

static uint32_t number(void) {
    uint32_t found = 0, from = at;
    while (at < pattern_length && pattern[at] >= '0' && pattern[at] <= '9') {
        found = found * 10 + pattern[at++] - '0';
        if (found > MAX_REPEAT)
            return wrong("at most 1000 repetitions");
    }
    return at > from ? found : wrong("a number of repetitions");
}

static void repetitions(struct item *item) {
    if (take('*'))
        item->least = 0, item->most = FOR_EVER;
    else if (take('+'))
        item->most = FOR_EVER;
    else if (take('?'))
        item->least = 0;
    else if (take('{')) {
        item->least = item->most = (uint16_t)number();
        if (take(','))
            item->most = look('}') ? FOR_EVER : (uint16_t)number();
        if (!take('}') || item->most < item->least)
            wrong("{m}, {m,} or {m,n}");
    } else
        return;
    take('?'); /* a lazy one means the same texts */
    if (look('*') || look('+') || look('?') || look('{'))
        wrong("one quantifier: put the first into a group");
}

static uint32_t alternative(uint32_t depth, uint32_t before) {
    struct item made = {.before = before, .a = NONE};
    made.starts = depth == 0 && take('^');
    while (at < pattern_length && !look('|') && !look(')')) {
        if (depth == 0 && look('$') && (at + 1 == pattern_length || pattern[at + 1] == '|')) {
            made.ends = take('$') != 0;
            break;
        }
        uint32_t item = atom(depth);
        if (item == NONE)
            return NONE;
        repetitions(&items[item]);
        items[item].before = made.a;
        made.a = item;
    }
    return new_item(made);
}

static uint32_t group_item(uint32_t depth) {
    uint32_t last = NONE;
    do
        last = alternative(depth, last);
    while (take('|'));
    return new_item((struct item){.is_group = 1, .least = 1, .most = 1, .a = last, .before = NONE});
}

/* ---- states ---- */

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

static uint32_t repeated(const struct item *item, uint32_t next) {
    uint32_t state = next;
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
    int searches = outermost && form & REGEX_FIND;
    for (uint32_t i = group->a; i != NONE && may_build(); i = items[i].before) {
        uint32_t state = searches && !items[i].ends ? anything(next) : next;
        for (uint32_t item = items[i].a; item != NONE && may_build(); item = items[item].before)
            state = repeated(&items[item], state);
        all = split_state(searches && !items[i].starts ? anything(state) : state, all);
    }
    return all;
}

uint32_t regex_states(const uint8_t *text, uint32_t length, enum regex_form how, uint32_t next) {
    pattern = text;
    pattern_length = length;
    form = how;
    regex_problem = 0;
    at = item_count = pool_count = 0;
    uint32_t whole = group_item(0);
    if (!regex_problem && at < length)
        wrong("no ) without its (");
    return regex_problem ? DEAD_STATE : group_states(&items[whole], next, 1);
}
