/* The loaded vocabulary: what the stream's tokens and flags become. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <stdint.h>

#include "tokens.h"

/* How the texts of normal, unused and byte tokens spell bytes (clause 4.6). */
enum spelling {
    SPELLS_ALPHABET, /* byte-level BPE: each byte a printable letter */
    SPELLS_BLANKS,   /* SentencePiece: itself, with U+2581 for a space and <0x0A> for a byte */
};

struct vocabulary {
    struct tokens tokens;
    enum spelling spelling;
    int add_bos, add_eos, add_space_prefix;
    int32_t bos, eos, unknown; /* -1: none */
};

extern struct vocabulary vocabulary;

/* Parses `length` bytes that were taken from the arena, changes them in place, and gives all that was taken back.
 * Returns SEALHOST_OK or an error whose text is set. */
int32_t vocabulary_read(uint8_t *stream, uint32_t length);

#endif
