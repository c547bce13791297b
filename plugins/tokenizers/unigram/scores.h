/* Scores: logarithms of how likely each token is. */
#ifndef SCORES_H
#define SCORES_H

#include <stdint.h>

/* Reads the scores of all tokens, float32, unaligned. 0 when the arena is full. */
int scores_read(const uint8_t *scores);

double score_of(uint32_t id);

/* What a character costs that no token spells: 10 less than the worst normal token. */
double unknown_score(void);

#endif
