/* SentencePiece's spelling: U+2581 stands for a space, <0x0A> for a byte that has no text of its own. */
#ifndef BLANKS_H
#define BLANKS_H

#include <stdint.h>

/* The byte that a text like <0x0A> stands for; -1: it is none. */
int32_t blanks_byte(const uint8_t *text, uint32_t length);

/* Copies with each U+2581 as a space; `to` may lie at or below `from`. Returns the bytes written. */
uint32_t blanks_decode(uint8_t *to, const uint8_t *from, uint32_t length);

/* Forgets the texts of earlier calls. */
void blanks_begin(void);

/* The stretch [at, end) with each U+2581 as a space, and with a space before it if `prefix` is set. What was written since
 * blanks_begin stays where it is. */
struct stretch {
    const uint8_t *at, *end;
};
struct stretch blanks_write(const uint8_t *at, const uint8_t *end, int prefix);

/* Marks the bytes after which a vocabulary's tokens go on with a space: only there may a merge cross from a word into the
 * space before the next one. */
void blanks_learn(void);

/* End of the piece that starts at `at`: the place before the next space that no token joins to what precedes it. */
const uint8_t *blanks_piece_end(const uint8_t *at, const uint8_t *end);

#endif
