#include "utf8.h"

/* Bytes that a sequence with this lead byte has, 0 when it can lead none. */
static uint32_t sequence_length(uint8_t lead) {
    if (lead < 0xC2)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

/* Point of a sequence of `length` bytes; UTF8_INVALID when overlong, a surrogate, too large or broken. */
static uint32_t decode(const uint8_t *at, uint32_t length) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t point = at[0] & (0x7Fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return UTF8_INVALID;
        point = point << 6 | (at[i] & 0x3F);
    }
    if (point < smallest[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
        return UTF8_INVALID;
    return point;
}

struct utf8 utf8_at(const uint8_t *at, const uint8_t *end) {
    uint8_t lead = at[0];
    if (lead < 0x80)
        return (struct utf8){lead, 1};
    uint32_t length = sequence_length(lead);
    uint32_t point = length && length <= (uint32_t)(end - at) ? decode(at, length) : UTF8_INVALID;
    return (struct utf8){point, point == UTF8_INVALID ? 1 : length};
}
