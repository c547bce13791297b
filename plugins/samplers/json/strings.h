/* Strings of a conjunction: lengths, patterns, formats. */
#ifndef JSON_STRINGS_H
#define JSON_STRINGS_H

#include "keywords.h"

#define MAX_LENGTH 1000000000u /* of minLength and maxLength, which are counted while a text is read: more than any answer has */

void strings_clear(void);

uint32_t text_states(const struct limits *limits, uint32_t next);

/* Whether a text fits the limits; it stands in the schema's. */
int text_fits(const struct limits *limits, uint32_t at, uint32_t length);

/* What several automata that read one text (product.h) find out about names that fit the limits: how many have to take it, how
 * many must not, and the fewest letters. 0: something is refused. Then the first are added, and the others after them. */
struct text_automata {
    uint32_t needed, unwanted, least;
};

int find_automata(const struct limits *limits, struct text_automata *found);
void add_needed_automata(void);
void add_unwanted_automata(void);

/* Compiles a pattern; refuses it when it is none. */
uint32_t pattern_of(const uint8_t *text, uint32_t length, int form, uint32_t next);

#endif
