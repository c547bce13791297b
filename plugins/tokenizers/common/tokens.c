#include "tokens.h"

#include "arena.h"
#include "sealhost_guest.h"

uint32_t power_of_two(uint32_t wanted) {
    uint32_t size = 16;
    while (size < wanted)
        size *= 2;
    return size;
}

int tokens_reserve(struct tokens *tokens, uint32_t count) {
    uint32_t slots = power_of_two(count * 2);
    tokens->by_bytes = arena_take(slots, sizeof *tokens->by_bytes);
    tokens->mask = slots - 1;
    for (uint32_t byte = 0; byte < 256; byte++)
        tokens->byte_ids[byte] = NO_ID;
    return tokens->by_bytes != 0;
}

/* FNV-1a, with a final mix because only the low bits are used. */
uint32_t hash_bytes(const uint8_t *bytes, uint32_t length) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    hash ^= hash >> 15;
    return hash * 0x2C1B3C6Du ^ hash >> 12;
}

/* The slot that holds these bytes, or the free slot where they belong. */
static uint32_t *slot_of(const struct tokens *tokens, const uint8_t *bytes, uint32_t length) {
    uint32_t at = hash_bytes(bytes, length) & tokens->mask;
    for (uint32_t *slot = &tokens->by_bytes[at]; *slot; slot = &tokens->by_bytes[at]) {
        uint32_t start = tokens->offsets[*slot - 1], size = tokens->offsets[*slot] - start;
        if (size == length && equal_bytes(tokens->bytes + start, bytes, length))
            break;
        at = (at + 1) & tokens->mask;
    }
    return &tokens->by_bytes[at];
}

void tokens_add(struct tokens *tokens, uint32_t id) {
    uint32_t start = tokens->offsets[id], length = tokens->offsets[id + 1] - start;
    uint32_t *slot = slot_of(tokens, tokens->bytes + start, length);
    if (*slot)
        return;
    *slot = id + 1;
    if (length > tokens->longest)
        tokens->longest = length;
}

uint32_t tokens_find(const struct tokens *tokens, const uint8_t *bytes, uint32_t length) {
    return *slot_of(tokens, bytes, length) - 1; /* a free slot, 0, becomes NO_ID */
}
