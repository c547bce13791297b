/* The printable alphabet of byte-level BPE: vocabularies spell each byte as one code point.
 *
 * The 188 bytes 33..126, 161..172 and 174..255 spell themselves; the other 68, in ascending order, are
 * U+0100..U+0143. (GPT-2's encoder.py, bytes_to_unicode.)
 */
#ifndef ALPHABET_H
#define ALPHABET_H

#include <stdint.h>

/* Bytes that `length` bytes of spelling stand for, -1 when a character is not of the alphabet. */
int32_t alphabet_length(const uint8_t *from, uint32_t length);

/* Writes those bytes at `to`, which may lie at or below `from`: the result is never longer than the spelling.
 * Requires alphabet_length() >= 0. */
void alphabet_decode(uint8_t *to, const uint8_t *from, uint32_t length);

#endif
