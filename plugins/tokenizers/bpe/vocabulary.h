/* Reads the vocabulary stream of sealhost.h into tables. Every count, length and offset is checked before use. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <stdint.h>

#include "pretokenize.h"
#include "tables.h"

/* Largest vocabulary and merge list that are read at all; the arena may refuse earlier. */
#define MAX_TOKENS (1u << 20)
#define MAX_MERGES (1u << 21)

struct vocabulary {
    struct tables tables;
    enum pre_kind pre;
    int whole_pieces; /* llama-bpe: a piece that is a token is not merged (the publisher's ignore_merges) */
    int add_bos, add_eos;
    int32_t bos, eos; /* -1: none */
};

/* Parses `length` bytes of the arena, which it then reuses: the token bytes stay there, the rest becomes zero.
 * Returns SEALHOST_OK or an error whose text is set. */
int32_t vocabulary_read(struct vocabulary *vocabulary, uint8_t *stream, uint32_t length);

#endif
