#include "tokens.h"

#include "arena.h"
#include "sealhost_guest.h"

#define ID_BITS 20
#define ID_MASK ((1u << ID_BITS) - 1)

uint32_t power_of_two(uint32_t wanted) {
    uint32_t size = 16;
    while (size < wanted)
        size *= 2;
    return size;
}

/* FNV-1a, with a final mix because buckets are numbered by the low bits. */
uint32_t hash_bytes(const uint8_t *bytes, uint32_t length) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    hash ^= hash >> 15;
    return hash * 0x2C1B3C6Du ^ hash >> 12;
}

static uint32_t length_of(const struct tokens *tokens, uint32_t id) {
    return tokens->offsets[id + 1] - tokens->offsets[id];
}

static uint32_t hash_of(const struct tokens *tokens, uint32_t id) {
    return hash_bytes(tokens->bytes + tokens->offsets[id], length_of(tokens, id));
}

/* Texts that can be found; notes the longest one. */
static uint32_t count_found(struct tokens *tokens, const uint8_t *found) {
    uint32_t number = 0;
    for (uint32_t id = 0; id < tokens->count; id++) {
        number += found[id];
        if (found[id] && length_of(tokens, id) > tokens->longest)
            tokens->longest = length_of(tokens, id);
    }
    return number;
}

/* A counting sort from behind: of equal texts the first one comes first in its bucket, and is the one that is found. */
int tokens_index(struct tokens *tokens, const uint8_t *found) {
    uint32_t number = count_found(tokens, found), buckets = power_of_two(number / 4);
    uint32_t *starts = arena_keep((uint64_t)buckets + 1, sizeof *starts);
    uint32_t *entries = arena_keep(number, sizeof *entries);
    if (!starts || !entries)
        return 0;
    tokens->starts = starts;
    tokens->entries = entries;
    tokens->mask = buckets - 1;
    for (uint32_t id = 0; id < tokens->count; id++)
        starts[hash_of(tokens, id) & tokens->mask] += found[id];
    for (uint32_t bucket = 1; bucket <= buckets; bucket++)
        starts[bucket] += starts[bucket - 1];
    for (uint32_t id = tokens->count; id--;)
        if (found[id]) {
            uint32_t hash = hash_of(tokens, id);
            entries[--starts[hash & tokens->mask]] = (hash & ~ID_MASK) | id;
        }
    return 1;
}

uint32_t tokens_find(const struct tokens *tokens, const uint8_t *bytes, uint32_t length) {
    uint32_t hash = hash_bytes(bytes, length), bucket = hash & tokens->mask;
    for (uint32_t at = tokens->starts[bucket]; at < tokens->starts[bucket + 1]; at++) {
        uint32_t entry = tokens->entries[at], id = entry & ID_MASK;
        if ((entry ^ hash) <= ID_MASK && length_of(tokens, id) == length &&
            equal_bytes(tokens->bytes + tokens->offsets[id], bytes, length))
            return id;
    }
    return NO_ID;
}
