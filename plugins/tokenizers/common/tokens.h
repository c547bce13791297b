/* The vocabulary's texts as bytes, and the look-up of an id by its bytes.
 *
 * Buckets of two to four entries on average lie one after another without a gap: so they take 5 bytes a text, and the 12 bits
 * of its hash that an entry holds spare nearly all looks at texts that differ.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include <stdint.h>

#define NO_ID 0xFFFFFFFFu

/* Token bytes lie one after another: those of id i are bytes[offsets[i]] up to bytes[offsets[i + 1]]. */
struct tokens {
    uint32_t count;
    const uint8_t *bytes;
    const uint32_t *offsets; /* count + 1 */
    const uint8_t *types;    /* SEALHOST_TYPE_* */
    const uint32_t *starts;  /* bucket b is entries[starts[b]] up to entries[starts[b + 1]] */
    const uint32_t *entries; /* hash's upper 12 bits | id's 20 (the bound of stream.c) */
    uint32_t mask;           /* of the hash: the bucket */
    uint32_t longest;        /* bytes of the longest text that can be found */
    uint32_t byte_ids[256];  /* id that stands for each single byte, NO_ID: the vocabulary has none */
};

/* Smallest power of two that is at least `wanted` and 16; wanted <= 2^31. */
uint32_t power_of_two(uint32_t wanted);

/* Makes the ids findable for which `found` is 1, each unless an earlier one has the same bytes; 0 when the arena is full. */
int tokens_index(struct tokens *tokens, const uint8_t *found);

/* The id whose bytes these are, or NO_ID. */
uint32_t tokens_find(const struct tokens *tokens, const uint8_t *bytes, uint32_t length);

/* A hash of some bytes, all of whose bits are mixed. */
uint32_t hash_bytes(const uint8_t *bytes, uint32_t length);

#endif
