#include "words.h"

#include "sealhost_guest.h"

#define WORDS_CAPACITY (8u << 20) /* 262,144 tokens of 27 bytes; Gemma 3's spell 7 each */

static union {
    struct sealhost_token_table table;
    uint8_t bytes[WORDS_CAPACITY];
} words __attribute__((aligned(8)));

int32_t words_place(uint32_t size) {
    return size <= sizeof words ? (int32_t)sealhost_offset(&words) : 0;
}

const uint8_t *word_of(uint32_t id, uint32_t *length) {
    *length = 0;
    if (id >= words.table.count)
        return words.bytes;
    const uint32_t *offsets = (const uint32_t *)(const void *)(words.bytes + words.table.offsets);
    *length = offsets[id + 1] - offsets[id];
    return words.bytes + words.table.bytes + offsets[id];
}
