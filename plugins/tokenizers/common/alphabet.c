#include "alphabet.h"

#include "utf8.h"

/* The byte that a code point stands for, -1: none. */
static int32_t byte_of(uint32_t point) {
    if ((point >= 33 && point <= 126) || (point >= 161 && point <= 255 && point != 173))
        return (int32_t)point;
    if (point < 256 || point > 323)
        return -1;
    uint32_t rank = point - 256; /* among the bytes 0..32, 127..160, 173 */
    return (int32_t)(rank < 33 ? rank : rank < 67 ? rank - 33 + 127 : 173);
}

int32_t alphabet_length(const uint8_t *from, uint32_t length) {
    const uint8_t *end = from + length;
    int32_t bytes = 0;
    for (; from < end; bytes++) {
        struct utf8 next = utf8_at(from, end);
        if (byte_of(next.point) < 0)
            return -1;
        from += next.length;
    }
    return bytes;
}

void alphabet_decode(uint8_t *to, const uint8_t *from, uint32_t length) {
    const uint8_t *end = from + length;
    while (from < end) {
        struct utf8 next = utf8_at(from, end);
        from += next.length;
        *to++ = (uint8_t)byte_of(next.point);
    }
}
