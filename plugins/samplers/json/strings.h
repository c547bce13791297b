/* Strings of a conjunction: lengths, patterns, formats. */
#ifndef JSON_STRINGS_H
#define JSON_STRINGS_H

#include "keywords.h"

#define MAX_LENGTH 1000000000u /* of minLength and maxLength, which are counted while a text is read: more than any answer has */

void strings_clear(void);

uint32_t text_states(const struct limits *limits, uint32_t next);

/* Whether a text fits the limits. */
int text_fits(const struct limits *limits, uint32_t node);

/* Compiles a pattern; refuses it when it is none. */
uint32_t pattern_of(const uint8_t *text, uint32_t length, int form, uint32_t next);

#endif
