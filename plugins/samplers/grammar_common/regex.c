/* A pattern is read into a tree. The parser calls itself once for each group within a group, at most MAX_GROUPS deep. */
#include "regex.h"

#include "characters.h"
#include "regex_tree.h"
#include "sealhost_guest.h"
#include "states.h"

const char *regex_problem;
uint32_t regex_problem_at;

struct item items[MAX_ITEMS];
struct item_range pool[POOL];
static uint32_t item_count, pool_count;
static const uint8_t *pattern;
static uint32_t pattern_length, at;
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
            return wrong("a plain group: no names or flags, and no look-around but the guest json's, ^(?=...) and ^(?!...) at its beginning");
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
            return wrong("at most 65534 repetitions");
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

uint32_t regex_states(const uint8_t *text, uint32_t length, enum regex_form form, uint32_t next) {
    pattern = text;
    pattern_length = length;
    regex_problem = 0;
    at = item_count = pool_count = 0;
    uint32_t whole = group_item(0);
    if (!regex_problem && at < length)
        wrong("no ) without its (");
    return regex_problem ? DEAD_STATE : tree_states(whole, form, next);
}
