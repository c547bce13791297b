#include "tables.h"

#include "arena.h"
#include "sealhost_guest.h"

/* Smallest power of two that is at least `wanted`; wanted <= 2^31. */
static uint32_t power_of_two(uint32_t wanted) {
    uint32_t size = 16;
    while (size < wanted)
        size *= 2;
    return size;
}

int tables_reserve(struct tables *tables, uint32_t tokens, uint32_t merges) {
    uint32_t by_bytes = power_of_two(tokens * 2), pairs = power_of_two(merges + merges / 2);
    tables->by_bytes = arena_take(by_bytes, sizeof *tables->by_bytes);
    tables->pairs = arena_take(pairs, sizeof *tables->pairs);
    tables->merged = arena_take(merges, sizeof *tables->merged);
    tables->by_bytes_mask = by_bytes - 1;
    tables->pairs_mask = pairs - 1;
    for (uint32_t byte = 0; byte < 256; byte++)
        tables->byte_ids[byte] = NO_ID;
    return tables->by_bytes && tables->pairs && tables->merged;
}

/* FNV-1a, with a final mix because only the low bits are used. */
static uint32_t hash_bytes(const uint8_t *bytes, uint32_t length) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    hash ^= hash >> 15;
    return hash * 0x2C1B3C6Du ^ hash >> 12;
}

static uint32_t hash_pair(uint32_t left, uint32_t right) {
    uint64_t mixed = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 32) ^ (uint32_t)(mixed >> 52);
}

/* The slot that holds these bytes, or the free slot where they belong. */
static uint32_t *slot_of(const struct tables *tables, const uint8_t *bytes, uint32_t length) {
    const struct tokens *tokens = &tables->tokens;
    uint32_t at = hash_bytes(bytes, length) & tables->by_bytes_mask;
    for (uint32_t *slot = &tables->by_bytes[at]; *slot; slot = &tables->by_bytes[at]) {
        uint32_t start = tokens->offsets[*slot - 1], size = tokens->offsets[*slot] - start;
        if (size == length && equal_bytes(tokens->bytes + start, bytes, length))
            break;
        at = (at + 1) & tables->by_bytes_mask;
    }
    return &tables->by_bytes[at];
}

void tables_add_token(struct tables *tables, uint32_t id) {
    uint32_t start = tables->tokens.offsets[id], length = tables->tokens.offsets[id + 1] - start;
    const uint8_t *bytes = tables->tokens.bytes + start;
    uint32_t *slot = slot_of(tables, bytes, length);
    if (*slot)
        return;
    *slot = id + 1;
    if (length == 1)
        tables->byte_ids[*bytes] = id;
}

uint32_t tables_find(const struct tables *tables, const uint8_t *bytes, uint32_t length) {
    return *slot_of(tables, bytes, length) - 1; /* a free slot, 0, becomes NO_ID */
}

static struct pair *pair_slot(const struct tables *tables, uint32_t left, uint32_t right) {
    uint32_t at = hash_pair(left, right) & tables->pairs_mask;
    struct pair *slot = &tables->pairs[at];
    while (slot->rank && (slot->left != left || slot->right != right)) {
        at = (at + 1) & tables->pairs_mask;
        slot = &tables->pairs[at];
    }
    return slot;
}

void tables_add_merge(struct tables *tables, uint32_t rank, uint32_t left, uint32_t right, uint32_t merged) {
    struct pair *slot = pair_slot(tables, left, right);
    tables->merged[rank] = merged;
    if (!slot->rank)
        *slot = (struct pair){left, right, rank + 1};
}

uint32_t tables_rank(const struct tables *tables, uint32_t left, uint32_t right) {
    return pair_slot(tables, left, right)->rank - 1; /* a free slot, 0, becomes NO_RANK */
}
