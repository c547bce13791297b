/* The printable alphabet in which vocabularies of byte-level BPE spell bytes (clause 4.6).
 *
 * The 188 bytes 33..126, 161..172 and 174..255 spell themselves as code points; the other 68, in ascending order, are
 * U+0100..U+0143. (GPT-2's encoder.py, bytes_to_unicode.)
 */
#ifndef SEALHOST_ALPHABET_H
#define SEALHOST_ALPHABET_H

#include <stdint.h>

/* The byte that a letter spells; -1: it is none of the alphabet. */
static inline int32_t alphabet_byte(uint32_t letter) {
    if ((letter >= 33 && letter <= 126) || (letter >= 161 && letter <= 255 && letter != 173))
        return (int32_t)letter;
    if (letter < 256 || letter > 323)
        return -1;
    uint32_t rank = letter - 256; /* the bytes that are left, in order: 0..32, 127..160, 173 */
    return (int32_t)(rank < 33 ? rank : rank < 67 ? rank + 94 : 173);
}

/* The bytes that a text spells, written at `to`, which may lie at or below the text: what is spelled is never longer. Returns
 * their number; -1, and nothing is written, when the text has another letter. */
static inline int32_t alphabet_decode(uint8_t *to, const uint8_t *text, uint32_t length) {
    int32_t made = 0;
    for (int write = 0; write < 2; write++) { /* first look, then write */
        made = 0;
        for (uint32_t i = 0; i < length; i++, made++) {
            uint32_t letter = text[i];
            if (letter >= 0x80) { /* the alphabet ends at U+0143: two bytes of UTF-8 */
                if (letter < 0xC2 || letter > 0xDF || i + 1 == length || (text[i + 1] & 0xC0) != 0x80)
                    return -1;
                letter = (letter & 0x1F) << 6 | (text[++i] & 0x3F);
            }
            int32_t byte = alphabet_byte(letter);
            if (byte < 0)
                return -1;
            if (write)
                to[made] = (uint8_t)byte;
        }
    }
    return made;
}

#endif /* SEALHOST_ALPHABET_H */
