/* The three regular expressions of rules.h, written out as scanners. Each matches at every place of every text.
 *
 * All take a place `at` below `end` and return the end of the match there.
 */
#ifndef PATTERNS_H
#define PATTERNS_H

#include <stdint.h>

const uint8_t *gpt2_end(const uint8_t *at, const uint8_t *end);

/* `letters`: classes that \p{L} stands for; `digits`: most numbers together. */
const uint8_t *cl100k_end(const uint8_t *at, const uint8_t *end, uint32_t letters, uint32_t digits);

/* `contractions`: a word takes a (?i:'s|'t|'re|'ve|'m|'ll|'d) that follows it. */
const uint8_t *o200k_end(const uint8_t *at, const uint8_t *end, uint32_t digits, int contractions);

#endif
