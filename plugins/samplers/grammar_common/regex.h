/* Regular expressions as states (README, chapter 3). */
#ifndef GRAMMAR_REGEX_H
#define GRAMMAR_REGEX_H

#include <stdint.h>

enum regex_form { /* bits: 1 = in a string, 2 = search, 4 = counted, 8 = calls, 16 = from the start */
    REGEX_TEXT = 0,   /* characters stand for their UTF-8 */
    REGEX_STRING = 1, /* characters stand for what spells them between the quotes of a JSON string */
    REGEX_FIND = 2,   /* as REGEX_TEXT, and without ^ and $ the match may lie anywhere in the text, as `pattern` means it */
    REGEX_SEARCH = 3, /* both */
    REGEX_COUNTED = 4, /* one more bit: each letter ticks (states.h) */
    REGEX_CALLS = 8,   /* one more, never beside the last: what repeats one character often may be a call of its own (COUNT) */
    REGEX_FROM_START = 16, /* one more: each alternative has ^ */
};

extern const char *regex_problem; /* 0, or what is wrong with the last pattern */
extern uint32_t regex_problem_at; /* byte of the pattern */

/* The first state of a pattern after which `next` follows; DEAD_STATE with regex_problem or build_problem on failure. */
uint32_t regex_states(const uint8_t *pattern, uint32_t length, enum regex_form form, uint32_t next);

#endif
