/* The order in which tokens merge: the better score first. */
#ifndef RANKS_H
#define RANKS_H

#include <stdint.h>

/* Reads the scores of all tokens, float32, unaligned. 0 when the arena is full. */
int ranks_read(const uint8_t *scores, uint32_t count);

/* A number that is the lower, the better the token's score is. */
uint32_t rank_of(uint32_t id);

#endif
