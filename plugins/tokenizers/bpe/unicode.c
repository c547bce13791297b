#include "unicode.h"

#include "unicode_16_0.h"

#define INVALID 0xFFFFFFFFu

/* Class of a code point: the last run that starts at or before it. */
static enum char_class class_of(uint32_t point) {
    uint32_t low = 0, high = UNICODE_RUNS;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (UNICODE_RUN[middle] >> 2 <= point)
            low = middle;
        else
            high = middle;
    }
    return (enum char_class)(UNICODE_RUN[low] & 3);
}

/* ASCII needs no search: it is most of most texts. */
static enum char_class class_of_ascii(uint8_t byte) {
    if ((uint8_t)((byte | 0x20) - 'a') < 26)
        return CLASS_LETTER;
    if ((uint8_t)(byte - '0') < 10)
        return CLASS_NUMBER;
    return byte == ' ' || (uint8_t)(byte - 9) < 5 ? CLASS_SPACE : CLASS_OTHER;
}

/* Bytes that a sequence with this lead byte has, 0 when it can lead none. */
static uint32_t sequence_length(uint8_t lead) {
    if (lead < 0xC2)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

/* Point of a sequence of `length` bytes; INVALID when overlong, a surrogate, too large or broken. */
static uint32_t decode(const uint8_t *at, uint32_t length) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t point = at[0] & (0x7Fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return INVALID;
        point = point << 6 | (at[i] & 0x3F);
    }
    if (point < smallest[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
        return INVALID;
    return point;
}

struct character character_at(const uint8_t *at, const uint8_t *end) {
    uint8_t lead = at[0];
    if (lead < 0x80)
        return (struct character){lead, 1, class_of_ascii(lead)};
    uint32_t length = sequence_length(lead);
    uint32_t point = length && length <= (uint32_t)(end - at) ? decode(at, length) : INVALID;
    if (point == INVALID)
        return (struct character){INVALID, 1, CLASS_OTHER};
    return (struct character){point, length, class_of(point)};
}
