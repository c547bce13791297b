#include "values.h"

#include "characters.h"
#include "limits.h"
#include "numbers.h"
#include "regex.h"
#include "sealhost_guest.h"
#include "states.h"

enum fixed { FIXED_STRING, FIXED_LETTERS, FIXED_NUMBER, FIXED_WHOLE, FIXED_ANY, FIXED_COUNT };

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

static uint32_t make_string(void) {
    tail = open_state();
    uint32_t letters = pattern_states(letter_pattern, tail);
    close_state(tail, letters, range_state('"', '"', RETURN_STATE));
    mark_plain(letters, LETTER_OF_LOOP, 0);
    return range_state('"', '"', tail);
}

/* Any number of letters, which are counted. */
static uint32_t make_letters(void) {
    uint32_t letters = open_state(), letter = pattern_states(letter_pattern, tick_state(letters));
    close_state(letters, letter, RETURN_STATE);
    mark_plain(letter, LETTER_OF_LOOP, LETTER_BEGIN);
    return letters;
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

static uint32_t rule(enum fixed which) {
    if (fixed[which])
        return fixed[which];
    switch (which) {
    case FIXED_STRING:
        return fixed[which] = make_string();
    case FIXED_LETTERS:
        return fixed[which] = make_letters();
    case FIXED_NUMBER:
        return fixed[which] = pattern_states(number_pattern, RETURN_STATE);
    case FIXED_WHOLE:
        return fixed[which] = whole_states(RETURN_STATE);
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
    struct count count = {.most = most, .least = least};
    uint32_t after = range_state('"', '"', next);
    if (most == ENDLESS && least == 0)
        return string_states(next);
    if (most == ENDLESS) { /* as many as there have to be, and then any */
        count = (struct count){.most = least, .least = least, .after = PLAIN_LETTERS};
        after = string_tail(next);
    }
    return range_state('"', '"', count_state(rule(FIXED_LETTERS), count, after));
}

uint32_t spelled(const uint8_t *text, uint32_t length, uint32_t next) {
    static const uint8_t hex[] = "0123456789abcdef", meant[] = "\"\\\b\f\n\r\t", written[] = "\"\\bfnrt";
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
    return next;
}

uint32_t quoted(const uint8_t *text, uint32_t length, uint32_t next) {
    return range_state('"', '"', spelled(text, length, range_state('"', '"', next)));
}

/* ---- numbers ---- */

uint32_t any_whole(uint32_t next) {
    return call_state(rule(FIXED_WHOLE), next);
}

uint32_t any_number(uint32_t next) {
    return call_state(rule(FIXED_NUMBER), next);
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
