/* Classes of characters that pre-tokenizers know. */
#ifndef UNICODE_H
#define UNICODE_H

#include <stdint.h>

#include "utf8.h"

/* The first eight are disjoint; what has none of them is unassigned, a control or a format character. */
enum char_class {
    CLASS_UPPER = 1,    /* \p{Lu} \p{Lt} */
    CLASS_LOWER = 2,    /* \p{Ll} */
    CLASS_CASELESS = 4, /* \p{Lm} \p{Lo} */
    CLASS_MARK = 8,     /* \p{M} */
    CLASS_NUMBER = 16,  /* \p{N} */
    CLASS_SPACE = 32,   /* \s */
    CLASS_PUNCT = 64,   /* \p{P} */
    CLASS_SYMBOL = 128, /* \p{S} */
    CLASS_LISTED = 256, /* in the list of letters that deepseek-llm's publisher wrote by hand */
    CLASS_STEP = 512,   /* taken by the `tokenizers` library's Punctuation step */
    CLASS_LETTER = CLASS_UPPER | CLASS_LOWER | CLASS_CASELESS, /* \p{L} */
};

/* One decoded character. A byte that starts no valid sequence is one character of its own, without a class. */
struct character {
    uint32_t point;
    uint32_t length;  /* bytes, 1..4 */
    uint32_t classes; /* enum char_class */
};

/* Makes ready for character_at, once. */
void unicode_prepare(void);

/* Decodes the character at `at`; requires at < end. */
struct character character_at(const uint8_t *at, const uint8_t *end);

#endif
