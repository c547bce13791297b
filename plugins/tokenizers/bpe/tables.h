/* What the loaded vocabulary becomes: three lookups, all in the arena.
 *
 *   bytes of a token  -> id            open addressing, u32 slots (id + 1), at most half full
 *   (left id, right id) -> merge rank  open addressing, 12-byte slots, at most two thirds full
 *   merge rank        -> merged id     an array
 */
#ifndef TABLES_H
#define TABLES_H

#include <stdint.h>

#define NO_ID 0xFFFFFFFFu
#define NO_RANK 0xFFFFFFFFu

/* Token bytes lie one after another: those of id i are bytes[offsets[i]] up to bytes[offsets[i + 1]]. */
struct tokens {
    uint32_t count;
    const uint8_t *bytes;
    const uint32_t *offsets; /* count + 1 */
    const uint8_t *types;    /* SEALHOST_TYPE_* */
};

struct pair {
    uint32_t left, right;
    uint32_t rank; /* + 1; 0: free slot */
};

struct tables {
    struct tokens tokens;
    uint32_t *by_bytes; /* id + 1; 0: free slot */
    uint32_t by_bytes_mask;
    struct pair *pairs;
    uint32_t pairs_mask;
    uint32_t *merged; /* by rank */
    uint32_t byte_ids[256]; /* id of each single byte, NO_ID: the vocabulary has none */
};

/* Room for `tokens` texts and `merges` pairs; 0 when the arena is full. */
int tables_reserve(struct tables *tables, uint32_t tokens, uint32_t merges);

/* Makes an id findable by its bytes, unless an earlier id has the same. */
void tables_add_token(struct tables *tables, uint32_t id);

/* The id whose bytes these are, or NO_ID. */
uint32_t tables_find(const struct tables *tables, const uint8_t *bytes, uint32_t length);

/* Adds a merge, unless a better one joins the same pair. */
void tables_add_merge(struct tables *tables, uint32_t rank, uint32_t left, uint32_t right, uint32_t merged);

/* The rank at which two neighbours merge, or NO_RANK. */
uint32_t tables_rank(const struct tables *tables, uint32_t left, uint32_t right);

#endif
