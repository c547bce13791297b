#include "pairs.h"

#include "arena.h"
#include "tokens.h"

#define ID_BITS 20
#define ID_MASK ((1u << ID_BITS) - 1)
#define NO_RANK 0xFFFFFFFFu /* of chain.h */
#define NO_ENTRY (~(uint64_t)0)

static uint32_t bucket_bits, bucket_mask;
static uint32_t key_shift; /* of an entry, to what tells its pair from the others of its bucket */
static uint32_t *starts;   /* bucket b is entries[starts[b]] up to entries[starts[b + 1]] */
static uint64_t *entries;

/* Left sides that differ in their lower bits only come to different buckets for the same right side. */
static uint32_t bucket_of(uint32_t left, uint32_t right) {
    uint32_t mixed = right * 0x9E3779B1u;
    return (left ^ mixed >> 12) & bucket_mask;
}

static uint64_t key_of(uint32_t left, uint32_t right) {
    return (uint64_t)(left >> bucket_bits) << ID_BITS | right;
}

static int reserve(uint32_t merges) {
    uint32_t buckets = power_of_two(merges / 4);
    bucket_bits = (uint32_t)__builtin_ctz(buckets);
    bucket_mask = buckets - 1;
    key_shift = bucket_bits + 4 + ID_BITS;
    starts = arena_keep((uint64_t)buckets + 1, sizeof *starts);
    entries = arena_keep(merges, sizeof *entries);
    return starts && entries;
}

/* A counting sort from behind: the best merge of a pair comes first in its bucket. */
int pairs_build(const struct merge *merges, uint32_t count) {
    if (!reserve(count))
        return 0;
    for (uint32_t rank = 0; rank < count; rank++)
        if (merges[rank].left != NO_ID)
            starts[bucket_of(merges[rank].left, merges[rank].right)]++;
    for (uint32_t bucket = 1; bucket <= bucket_mask + 1; bucket++)
        starts[bucket] += starts[bucket - 1];
    for (uint32_t rank = count; rank--;) {
        const struct merge *merge = &merges[rank];
        if (merge->left != NO_ID)
            entries[--starts[bucket_of(merge->left, merge->right)]] =
                key_of(merge->left, merge->right) << key_shift | (uint64_t)rank << ID_BITS | merge->merged;
    }
    return 1;
}

static uint64_t find(uint32_t left, uint32_t right) {
    uint64_t key = key_of(left, right);
    uint32_t bucket = bucket_of(left, right);
    const uint64_t *end = entries + starts[bucket + 1];
    for (const uint64_t *entry = entries + starts[bucket]; entry < end; entry++)
        if (*entry >> key_shift == key)
            return *entry;
    return NO_ENTRY;
}

uint32_t pairs_rank(uint32_t left, uint32_t right) {
    uint64_t entry = find(left, right);
    return entry == NO_ENTRY ? NO_RANK : (uint32_t)(entry >> ID_BITS) & ((1u << (key_shift - ID_BITS)) - 1);
}

uint32_t pairs_merged(uint32_t left, uint32_t right) {
    return (uint32_t)find(left, right) & ID_MASK;
}
