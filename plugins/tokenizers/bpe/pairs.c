#include "pairs.h"

#include "arena.h"
#include "tokens.h"

struct pair {
    uint32_t left, right;
    uint32_t rank; /* + 1; 0: free slot */
};

static struct pair *pairs;
static uint32_t mask;
static uint32_t *merged_by_rank;

int pairs_reserve(uint32_t merges) {
    uint32_t slots = power_of_two(merges + merges / 2);
    pairs = arena_take(slots, sizeof *pairs);
    merged_by_rank = arena_take(merges, sizeof *merged_by_rank);
    mask = slots - 1;
    return pairs && merged_by_rank;
}

static uint32_t hash_pair(uint32_t left, uint32_t right) {
    uint64_t mixed = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 32) ^ (uint32_t)(mixed >> 52);
}

static struct pair *slot_of(uint32_t left, uint32_t right) {
    uint32_t at = hash_pair(left, right) & mask;
    struct pair *slot = &pairs[at];
    while (slot->rank && (slot->left != left || slot->right != right)) {
        at = (at + 1) & mask;
        slot = &pairs[at];
    }
    return slot;
}

void pairs_add(uint32_t rank, uint32_t left, uint32_t right, uint32_t merged) {
    struct pair *slot = slot_of(left, right);
    merged_by_rank[rank] = merged;
    if (!slot->rank)
        *slot = (struct pair){left, right, rank + 1};
}

uint32_t pairs_rank(uint32_t left, uint32_t right) {
    return slot_of(left, right)->rank - 1; /* a free slot, 0, becomes NO_RANK */
}

uint32_t pairs_merged(uint32_t rank) {
    return merged_by_rank[rank];
}
