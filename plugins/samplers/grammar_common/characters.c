#include "characters.h"

#include "sealhost_guest.h"
#include "states.h"

int add_characters(struct characters *set, uint32_t low, uint32_t high) {
    if (set->count == MAX_RANGES)
        return 0;
    set->ranges[set->count].low = low;
    set->ranges[set->count++].high = high;
    return 1;
}

void join_characters(struct characters *set) {
    for (uint32_t i = 1; i < set->count; i++) /* insertion sort: classes are short and mostly in order */
        for (uint32_t j = i; j > 0 && set->ranges[j].low < set->ranges[j - 1].low && may_step(); j--) {
            uint32_t low = set->ranges[j].low, high = set->ranges[j].high;
            set->ranges[j] = set->ranges[j - 1];
            set->ranges[j - 1].low = low;
            set->ranges[j - 1].high = high;
        }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (kept > 0 && set->ranges[i].low <= set->ranges[kept - 1].high + 1) {
            if (set->ranges[i].high > set->ranges[kept - 1].high)
                set->ranges[kept - 1].high = set->ranges[i].high;
        } else
            set->ranges[kept++] = set->ranges[i];
    }
    set->count = kept;
}

int invert_characters(struct characters *set) {
    struct characters others;
    uint32_t from = 0;
    others.count = 0;
    join_characters(set);
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ranges[i].low > from && !add_characters(&others, from, set->ranges[i].low - 1))
            return 0;
        from = set->ranges[i].high + 1;
    }
    if (from <= LAST_CHARACTER && !add_characters(&others, from, LAST_CHARACTER))
        return 0;
    copy_bytes(set, &others, sizeof others);
    return 1;
}

uint32_t read_character(const uint8_t *text, uint32_t length, uint32_t *at) {
    uint8_t lead = text[(*at)++];
    uint32_t more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t found = more ? lead & (0x3fu >> more) : lead;
    for (; more > 0 && *at < length; more--)
        found = found << 6 | (text[(*at)++] & 0x3f);
    return found;
}

static uint32_t encode(uint32_t character, uint8_t *bytes) {
    if (character < 0x80) {
        bytes[0] = (uint8_t)character;
        return 1;
    }
    uint32_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (uint32_t i = length; i-- > 1; character >>= 6)
        bytes[i] = (uint8_t)(0x80 | (character & 0x3f));
    bytes[0] = (uint8_t)((0xf00u >> length) | character);
    return length;
}

/* Splits `low..*high` so that *high ends a range whose bytes vary independently; returns the rest's first character. */
static uint32_t cut(uint32_t low, uint32_t *high) {
    static const uint32_t lasts[] = {0x7f, 0x7ff, 0xd7ff, 0xffff};
    for (uint32_t i = 0; i < 4; i++)
        if (low <= lasts[i] && lasts[i] < *high)
            *high = lasts[i];
    for (uint32_t bits = 6; bits <= 18 && low >= 0x80; bits += 6) {
        uint32_t rest = (1u << bits) - 1;
        if ((low & ~rest) == (*high & ~rest))
            continue;
        if (low & rest)
            *high = low | rest;
        else if ((*high & rest) != rest)
            *high = (*high & ~rest) - 1;
    }
    return *high + 1;
}

static uint32_t range_of_characters(uint32_t low, uint32_t high, uint32_t next) {
    uint32_t all = DEAD_STATE;
    while (low <= high) {
        uint32_t last = high;
        if (low >= 0xd800 && low <= 0xdfff) {
            low = 0xe000;
            continue;
        }
        uint32_t rest = cut(low, &last);
        uint8_t first_bytes[4], last_bytes[4];
        uint32_t count = encode(low, first_bytes), state = next;
        encode(last, last_bytes);
        while (count-- > 0)
            state = range_state(first_bytes[count], last_bytes[count], state);
        all = split_state(state, all);
        low = rest;
    }
    return all;
}

static int is_in(const struct characters *set, uint32_t character) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->ranges[i].low <= character && character <= set->ranges[i].high)
            return 1;
    return 0;
}

/* What JSON has a short escape for, and must not or need not stand for itself. */
static uint32_t escapes(const struct characters *set, uint32_t next) {
    static const uint8_t meant[] = {'"', '\\', '\b', '\f', '\n', '\r', '\t'}, written[] = {'"', '\\', 'b', 'f', 'n', 'r', 't'};
    struct byte_set letters = {{0}};
    int any = 0;
    for (uint32_t i = 0; i < sizeof meant; i++)
        if (is_in(set, meant[i])) {
            set_add(&letters, written[i], written[i]);
            any = 1;
        }
    return any ? range_state('\\', '\\', byte_state(&letters, next)) : DEAD_STATE;
}

uint32_t character_states(const struct characters *set, int in_string, uint32_t next) {
    struct byte_set ascii = {{0}};
    uint32_t all = in_string ? escapes(set, next) : DEAD_STATE;
    int any = 0;
    for (uint32_t i = set->count; i-- > 0;)
        if (set->ranges[i].high >= 0x80) {
            uint32_t low = set->ranges[i].low < 0x80 ? 0x80 : set->ranges[i].low;
            all = split_state(range_of_characters(low, set->ranges[i].high, next), all);
        }
    for (uint32_t i = 0; i < set->count && set->ranges[i].low < 0x80; i++)
        set_add(&ascii, set->ranges[i].low, set->ranges[i].high < 0x80 ? set->ranges[i].high : 0x7f);
    if (in_string) {
        ascii.bits[0] = 0; /* control characters */
        ascii.bits['"' / 32] &= ~(1u << '"' % 32);
        ascii.bits['\\' / 32] &= ~(1u << '\\' % 32);
    }
    for (uint32_t i = 0; i < 4; i++)
        any |= ascii.bits[i] != 0;
    return any ? split_state(byte_state(&ascii, next), all) : all;
}

void mark_plain(uint32_t letter, uint8_t ascii, uint8_t others) {
    uint32_t todo[32], count = 0;
    todo[count++] = letter;
    while (count > 0) {
        struct state *state = &states[todo[--count]];
        if (state->kind == STATE_SPLIT && count + 2 <= 32) {
            todo[count++] = state->a;
            todo[count++] = state->b;
        } else if (state->kind == STATE_BYTE && set_has(&sets[state->a], 'a'))
            state->letters = ascii;
        else if (state->kind == STATE_BYTE && !set_has(&sets[state->a], '\\'))
            state->letters = others;
    }
}
