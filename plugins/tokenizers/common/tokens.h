/* The vocabulary's texts as bytes, and the look-up of an id by its bytes.
 *
 * Open addressing, u32 slots (id + 1), at most half full; all in the arena.
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
    uint32_t *by_bytes;      /* id + 1; 0: free slot */
    uint32_t mask;
    uint32_t longest;       /* bytes of the longest text that can be found */
    uint32_t byte_ids[256]; /* id that stands for each single byte, NO_ID: the vocabulary has none */
};

/* Smallest power of two that is at least `wanted`; wanted <= 2^31. */
uint32_t power_of_two(uint32_t wanted);

/* Room for the look-up of `count` texts; 0 when the arena is full. */
int tokens_reserve(struct tokens *tokens, uint32_t count);

/* Makes an id findable by its bytes, unless an earlier id has the same. */
void tokens_add(struct tokens *tokens, uint32_t id);

/* The id whose bytes these are, or NO_ID. */
uint32_t tokens_find(const struct tokens *tokens, const uint8_t *bytes, uint32_t length);

/* A hash of some bytes, all of whose bits are mixed. */
uint32_t hash_bytes(const uint8_t *bytes, uint32_t length);

#endif
