#include "pairs.h"

#include "arena.h"
#include "tokens.h"

/* A slot: left << 42 | right << 22 | (rank + 1); 0: free. Ids have 20 bits and ranks 21 (the bounds of stream.c). */
#define RANK_BITS 22
#define RANK_MASK ((1u << RANK_BITS) - 1)

static uint64_t *pairs;
static uint32_t mask;
static uint32_t *merged_by_rank;

int pairs_reserve(uint32_t merges) {
    uint32_t slots = power_of_two(merges + merges / 2);
    pairs = arena_take(slots, sizeof *pairs);
    merged_by_rank = arena_take(merges, sizeof *merged_by_rank);
    mask = slots - 1;
    return pairs && merged_by_rank;
}

/* The slot that holds this pair, or the free slot where it belongs. */
static uint64_t *slot_of(uint32_t left, uint32_t right) {
    uint64_t pair = (uint64_t)left << 20 | right, mixed = pair * 0x9E3779B97F4A7C15u;
    uint32_t at = ((uint32_t)(mixed >> 32) ^ (uint32_t)(mixed >> 52)) & mask;
    while (pairs[at] && pairs[at] >> RANK_BITS != pair)
        at = (at + 1) & mask;
    return &pairs[at];
}

void pairs_add(uint32_t rank, uint32_t left, uint32_t right, uint32_t merged) {
    uint64_t *slot = slot_of(left, right);
    merged_by_rank[rank] = merged;
    if (!*slot)
        *slot = (uint64_t)left << 42 | (uint64_t)right << RANK_BITS | (rank + 1);
}

uint32_t pairs_rank(uint32_t left, uint32_t right) {
    return ((uint32_t)*slot_of(left, right) & RANK_MASK) - 1; /* a free slot, 0, becomes NO_RANK */
}

uint32_t pairs_merged(uint32_t rank) {
    return merged_by_rank[rank];
}
