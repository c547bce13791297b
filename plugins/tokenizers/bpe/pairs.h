/* Merges: which pairs of tokens become which token, and how soon.
 *
 *   (left id, right id) -> rank  open addressing, 8-byte slots, at most two thirds full
 *   rank -> merged id            an array
 */
#ifndef PAIRS_H
#define PAIRS_H

#include <stdint.h>

/* Room for `merges` pairs; 0 when the arena is full. */
int pairs_reserve(uint32_t merges);

/* Adds a merge, unless a better one joins the same pair. */
void pairs_add(uint32_t rank, uint32_t left, uint32_t right, uint32_t merged);

/* The rank at which two neighbours merge, or NO_RANK of chain.h; and what they become. */
uint32_t pairs_rank(uint32_t left, uint32_t right);
uint32_t pairs_merged(uint32_t rank);

#endif
