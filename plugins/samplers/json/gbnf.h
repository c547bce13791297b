/* Grammars in GBNF as states (README, chapter 3). */
#ifndef JSON_GBNF_H
#define JSON_GBNF_H

#include <stdint.h>

/* The first state of the texts of a grammar's rule `root`; on failure an error status, with its text in the error area. */
int32_t gbnf_states(const uint8_t *text, uint32_t length, uint32_t *start);

#endif
