#include "values.h"

#include "regex.h"
#include "sealhost_guest.h"
#include "states.h"

enum fixed { FIXED_STRING, FIXED_LETTER, FIXED_NUMBER, FIXED_WHOLE, FIXED_ANY, FIXED_COUNT };

#define PLAIN "[^\"\\\\\\x00-\\x1f]"
#define HEX "[0-9a-fA-F]"
#define ESCAPE                                                                                                         \
    "\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF]" HEX "{3}|[dD][0-7]" HEX "{2}|[dD][89abAB]" HEX "{2}\\\\u[dD][c-fC-F]" HEX "{2}))"

static const char letter_pattern[] = PLAIN "|" ESCAPE;
static const char number_pattern[] = "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?";

static uint32_t fixed[FIXED_COUNT]; /* the rules that were made for this schema, 0: not yet */
static uint32_t tail;               /* of FIXED_STRING: after the opening quote, and after each letter */

static uint32_t pattern_states(const char *pattern, uint32_t next) {
    uint32_t length = 0;
    while (pattern[length])
        length++;
    return regex_states((const uint8_t *)pattern, length, REGEX_TEXT, next);
}

/* Marks the states that read the first bytes of plain letters, from where a letter begins (trie.h). */
static void mark(uint32_t letter, uint8_t ascii, uint8_t others) {
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

static uint32_t make_string(void) {
    tail = open_state();
    uint32_t letters = pattern_states(letter_pattern, tail);
    close_state(tail, letters, range_state('"', '"', RETURN_STATE));
    mark(letters, LETTER_OF_LOOP, 0);
    return range_state('"', '"', tail);
}

static uint32_t make_letter(void) {
    uint32_t letter = pattern_states(letter_pattern, RETURN_STATE);
    mark(letter, LETTER, LETTER_BEGIN);
    return letter;
}

static uint32_t make_any(uint32_t self) {
    uint32_t all = split_state(call_state(fixed[FIXED_STRING], RETURN_STATE), call_state(fixed[FIXED_NUMBER], RETURN_STATE));
    all = split_state(all, split_state(any_object(RETURN_STATE), any_array(RETURN_STATE)));
    all = split_state(all, text_state((const uint8_t *)"true", 4, RETURN_STATE));
    all = split_state(all, text_state((const uint8_t *)"false", 5, RETURN_STATE));
    all = split_state(all, text_state((const uint8_t *)"null", 4, RETURN_STATE));
    close_state(self, all, DEAD_STATE);
    return self;
}

static uint32_t whole_between(const struct limits *limits, uint32_t next);

static uint32_t rule(enum fixed which) {
    static const struct limits everything = {.low = -MOST_WHOLE, .high = MOST_WHOLE};
    if (fixed[which])
        return fixed[which];
    switch (which) {
    case FIXED_STRING:
        return fixed[which] = make_string();
    case FIXED_LETTER:
        return fixed[which] = make_letter();
    case FIXED_NUMBER:
        return fixed[which] = pattern_states(number_pattern, RETURN_STATE);
    case FIXED_WHOLE:
        return fixed[which] = whole_between(&everything, RETURN_STATE);
    default:
        rule(FIXED_STRING);
        rule(FIXED_NUMBER);
        fixed[which] = open_state();
        return make_any(fixed[which]);
    }
}

void values_clear(void) {
    clear_bytes(fixed, sizeof fixed);
}

/* ---- strings ---- */

uint32_t string_states(uint32_t next) {
    return call_state(rule(FIXED_STRING), next);
}

uint32_t string_tail(uint32_t next) {
    rule(FIXED_STRING);
    return call_state(tail, next);
}

uint32_t sized_string(uint32_t least, uint32_t most, uint32_t next) {
    if (most > MAX_LENGTH) {
        uint32_t state = string_tail(next);
        uint32_t letter = rule(FIXED_LETTER);
        states[state].letters = PLAIN_LETTERS - 1;
        for (uint32_t i = 0; i < least && may_build(); i++) {
            state = call_state(letter, state);
            states[state].letters = PLAIN_LETTERS - 1;
        }
        return range_state('"', '"', state);
    }
    uint32_t letter = rule(FIXED_LETTER), end = range_state('"', '"', next), state = end;
    for (uint32_t left = 1; left <= most && may_build(); left++) {
        state = call_state(letter, state);
        if (most - left >= least) /* as many as stand before may be all */
            state = split_state(state, end);
        if (may_build())
            states[state].letters = (uint8_t)(left < PLAIN_LETTERS - 1 ? left : PLAIN_LETTERS - 1);
    }
    return range_state('"', '"', state);
}

uint32_t quoted(const uint8_t *text, uint32_t length, uint32_t next) {
    static const uint8_t hex[] = "0123456789abcdef", meant[] = "\"\\\b\f\n\r\t", written[] = "\"\\bfnrt";
    next = range_state('"', '"', next);
    while (length-- > 0) {
        uint8_t byte = text[length], i = 0;
        while (i < 7 && meant[i] != byte)
            i++;
        if (i < 7)
            next = range_state('\\', '\\', range_state(written[i], written[i], next));
        else if (byte < 0x20) {
            uint8_t escape[] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
            next = text_state(escape, sizeof escape, next);
        } else
            next = range_state(byte, byte, next);
    }
    return range_state('"', '"', next);
}

/* ---- numbers ---- */

/* Numbers of `count` digits from low to high, both of so many digits. */
static uint32_t digits_between(uint64_t low, uint64_t high, uint32_t count, uint32_t next) {
    uint32_t after[4] = {next, next, next, next}, made[4]; /* by flags: 1 = all digits so far are low's, 2 = high's */
    for (; count > 0; count--, low /= 10, high /= 10) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            uint32_t from = flags & 1 ? (uint32_t)(low % 10) : 0, to = flags & 2 ? (uint32_t)(high % 10) : 9, state = DEAD_STATE;
            for (uint32_t digit = from; digit <= to; digit++) {
                uint32_t kept = (flags & 1 && digit == from ? 1u : 0) | (flags & 2 && digit == to ? 2u : 0), last = digit;
                while (!kept && last < to && !(flags & 2 && last + 1 == to))
                    last++;
                state = split_state(state, range_state('0' + digit, '0' + last, after[kept]));
                digit = last;
            }
            made[flags] = state;
        }
        copy_bytes(after, made, sizeof made);
    }
    return after[3];
}

static uint32_t natural(uint64_t low, uint64_t high, uint32_t next) {
    uint32_t all = DEAD_STATE, count = 1;
    for (uint64_t least = 0, most = 9; count <= MAX_DIGITS; count++, least = most + 1, most = most * 10 + 9) {
        uint64_t from = low > least ? low : least, to = high < most ? high : most;
        if (from <= to)
            all = split_state(all, digits_between(from, to, count, next));
    }
    return all;
}

static uint32_t whole_between(const struct limits *limits, uint32_t next) {
    int64_t low = limits->low + (limits->has_low && limits->is_exclusive_low);
    int64_t high = limits->high - (limits->has_high && limits->is_exclusive_high);
    uint32_t all = DEAD_STATE;
    if (high >= 0 && low <= high)
        all = natural(low > 0 ? (uint64_t)low : 0, (uint64_t)high, next);
    if (low < 0 && low <= high)
        all = split_state(all, range_state('-', '-', natural(high < 0 ? (uint64_t)-high : 1, (uint64_t)-low, next)));
    return all;
}

uint32_t whole_number(const struct limits *limits, uint32_t next) {
    return limits->has_low || limits->has_high ? whole_between(limits, next) : call_state(rule(FIXED_WHOLE), next);
}

/* Whole numbers within the limits, and n.f where both n and what follows it outwards are within. */
uint32_t any_number(const struct limits *limits, uint32_t next) {
    if (!limits->has_low && !limits->has_high)
        return call_state(rule(FIXED_NUMBER), next);
    int is_exclusive = limits->is_exclusive_low || limits->is_exclusive_high;
    uint32_t all = whole_number(limits, next);
    uint32_t fraction = pattern_states(is_exclusive ? "\\.[0-9]{0,15}[1-9]" : "\\.[0-9]{1,16}", next);
    int64_t low = limits->low, high = limits->high;
    if (high > 0 && low < high)
        all = split_state(all, natural(low > 0 ? (uint64_t)low : 0, (uint64_t)high - 1, fraction));
    if (low < 0 && low < high)
        all = split_state(all, range_state('-', '-', natural(high < 0 ? (uint64_t)-high : 0, (uint64_t)-low - 1, fraction)));
    return all;
}

/* ---- values, written from their end to their beginning ---- */

uint32_t spaced(uint8_t byte, uint32_t next) {
    return range_state(byte, byte, split_state(range_state(' ', ' ', next), next));
}

uint32_t any_value(uint32_t next) {
    return call_state(rule(FIXED_ANY), next);
}

uint32_t any_object(uint32_t next) {
    uint32_t more = open_state();
    uint32_t member = string_states(spaced(':', any_value(more)));
    close_state(more, spaced(',', member), range_state('}', '}', next));
    return range_state('{', '{', split_state(member, range_state('}', '}', next)));
}

uint32_t any_array(uint32_t next) {
    uint32_t more = open_state(), item = any_value(more);
    close_state(more, spaced(',', item), range_state(']', ']', next));
    return range_state('[', '[', split_state(item, range_state(']', ']', next)));
}

static uint32_t scalar(const struct json *json, const struct json_node *node, uint32_t next) {
    static const char *words[] = {"null", "false", "true"};
    static const uint32_t lengths[] = {4, 5, 4};
    if (node->kind == JSON_TEXT)
        return quoted(json->text + node->at, node->length, next);
    if (node->kind == JSON_NUMBER)
        return text_state(json->text + node->at, node->length, next);
    return text_state((const uint8_t *)words[node->kind], lengths[node->kind], next);
}

uint32_t literal(const struct json *json, uint32_t root, uint32_t next) {
    uint32_t open[JSON_DEPTH + 1], depth = 0, node = root;
    for (;;) {
        const struct json_node *here = &json->nodes[node];
        if (here->kind >= JSON_ARRAY) {
            uint8_t closing = here->kind == JSON_ARRAY ? ']' : '}';
            next = range_state(closing, closing, next);
            if (here->first && depth < JSON_DEPTH) {
                open[depth++] = node;
                node = here->last;
                continue;
            }
            next = range_state(closing - 2, closing - 2, next); /* [ and { stand two places before */
        } else
            next = scalar(json, here, next);
        for (;;) { /* what stands before this value in the text */
            if (depth == 0 || !may_build())
                return next;
            uint32_t whole = open[depth - 1], earlier = json->nodes[node].before;
            if (json->nodes[whole].kind == JSON_OBJECT)
                next = quoted(json->text + json->nodes[node].key, json->nodes[node].key_length, range_state(':', ':', next));
            if (earlier) {
                next = range_state(',', ',', next);
                node = earlier;
                break;
            }
            uint8_t opening = json->nodes[whole].kind == JSON_ARRAY ? '[' : '{';
            next = range_state(opening, opening, next);
            node = whole;
            depth--;
        }
    }
}
