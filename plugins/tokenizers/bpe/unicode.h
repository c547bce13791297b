/* UTF-8 decoding and the three classes that pre-tokenizers know. */
#ifndef UNICODE_H
#define UNICODE_H

#include <stdint.h>

enum char_class { CLASS_OTHER = 0, CLASS_LETTER = 1, CLASS_NUMBER = 2, CLASS_SPACE = 3 };

/* One decoded character. A byte that starts no valid sequence is one character of its own, CLASS_OTHER. */
struct character {
    uint32_t point;
    uint32_t length; /* bytes, 1..4 */
    enum char_class class;
};

/* Decodes the character at `at`; requires at < end. */
struct character character_at(const uint8_t *at, const uint8_t *end);

#endif
