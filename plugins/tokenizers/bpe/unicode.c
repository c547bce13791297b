#include "unicode.h"

#include "unicode_16_0.h"

#define BLOCKS (0x110000 >> 8)

/* first_run[b]: the run that holds the first code point of block b of 256, so that a search looks at few runs. */
static uint16_t first_run[BLOCKS + 1];

void unicode_prepare(void) {
    uint32_t run = 0;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        while (run + 1 < UNICODE_RUNS && UNICODE_RUN[run + 1] >> 10 <= block << 8)
            run++;
        first_run[block] = (uint16_t)run;
    }
    first_run[BLOCKS] = UNICODE_RUNS - 1;
}

/* Classes of a code point: those of the last run that starts at or before it. */
static uint32_t classes_of(uint32_t point) {
    uint32_t low = first_run[point >> 8], high = first_run[(point >> 8) + 1] + 1u;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (UNICODE_RUN[middle] >> 10 <= point)
            low = middle;
        else
            high = middle;
    }
    return UNICODE_RUN[low] & 0x3FF;
}

struct character character_at(const uint8_t *at, const uint8_t *end) {
    if (*at < 0x80) /* ASCII needs no search: it is most of most texts */
        return (struct character){*at, 1, UNICODE_ASCII[*at]};
    struct utf8 next = utf8_at(at, end);
    if (next.point == UTF8_INVALID)
        return (struct character){next.point, 1, 0};
    return (struct character){next.point, next.length, classes_of(next.point)};
}
