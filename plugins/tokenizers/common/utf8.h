/* UTF-8, decoded with care: a byte that starts no valid sequence is one character of its own. */
#ifndef UTF8_H
#define UTF8_H

#include <stdint.h>

#define UTF8_INVALID 0xFFFFFFFFu

struct utf8 {
    uint32_t point;  /* UTF8_INVALID for a bad byte */
    uint32_t length; /* bytes, 1..4 */
};

/* Decodes the character at `at`; requires at < end. */
struct utf8 utf8_at(const uint8_t *at, const uint8_t *end);

#endif
