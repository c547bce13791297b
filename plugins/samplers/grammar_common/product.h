/* Several automata that read one text together: what all of them take, or which of them do. They have no calls.
 *
 *     together_begin(1, 20, 0);                                 // such that the first one takes, of at least 20 letters
 *     together_add(regex_states(..., together_end()));          // REGEX_COUNTED; as often as wanted
 *     if (together_meet())
 *         answers[1] = range_state('"', '"', next);              // if it alone takes a text; the others are DEAD_STATE
 *     uint32_t start = together_states();
 */
#ifndef GRAMMAR_PRODUCT_H
#define GRAMMAR_PRODUCT_H

#include <stdint.h>

#include "limits.h"

/* By the set of automata that take a text (bit n: the n-th that was added): whether a text with this set exists, which
 * together_meet finds; and what follows it. */
extern uint8_t has_answer[1u << MAX_TOGETHER];
extern uint32_t answers[1u << MAX_TOGETHER];

/* Only texts matter that the first `needed` ones all take, whose letters tick (states.h); of the others that is no matter. A text
 * has `least` letters or more, each spelled as a pattern in a JSON string spells it (characters.h); with `ticks`, each ticks in
 * what is made. */
void together_begin(uint32_t needed, uint32_t least, int ticks);

/* What has to follow the next automaton; then its first state. At most MAX_TOGETHER. */
uint32_t together_end(void);
void together_add(uint32_t start);
uint32_t together_all(void);

/* Reads all texts. 0: a bound was met, as build_problem says. */
int together_meet(void);

/* The first state of what reads a text and goes on as `answers` says. */
uint32_t together_states(void);

/* Whether an automaton, whose end is what together_end gave, takes a text. */
int takes_text(uint32_t start, uint32_t end, const uint8_t *text, uint32_t length);

#endif
