/* Merges: which pairs of tokens become which token, and how soon.
 *
 * Buckets of two to four entries on average lie one after another without a gap: 9 bytes a merge. An entry's 64 bits,
 * for 2^b buckets and ids of 20 bits (the bound of stream.c):
 *
 *   left's upper 20 - b bits | right: 20 | rank: b + 4 | merged: 20
 *
 * left's lower bits follow from right and the number of the bucket. That leaves a rank the room it needs, for there are fewer
 * than 2^(b + 4) merges: the more of them, the more buckets.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include <stdint.h>

/* Ids. */
struct merge {
    uint32_t left; /* NO_ID: no merge */
    uint32_t right, merged;
};

/* Enters merges in the order of their ranks; of two that join the same pair the first counts. 0 when the arena is full. */
int pairs_build(const struct merge *merges, uint32_t count);

/* The rank at which two neighbours merge, or NO_RANK of chain.h. */
uint32_t pairs_rank(uint32_t left, uint32_t right);

/* What two neighbours that merge become. */
uint32_t pairs_merged(uint32_t left, uint32_t right);

#endif
