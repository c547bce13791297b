#include "blanks.h"

#include "arena.h"
#include "input.h"
#include "sealhost_guest.h"
#include "vocabulary.h"

/* The text that is being encoded, with spaces for U+2581; no longer than the input and one prefix. */
static uint8_t written[INPUT_BYTES + 1];
static uint32_t used;

/* joins[b]: some token has a space right after the byte b. */
static BESIDE_CONSTANTS uint8_t joins[256];

static int32_t hex_digit(uint8_t digit) {
    if ((uint8_t)(digit - '0') < 10)
        return digit - '0';
    uint8_t letter = digit | 0x20;
    return (uint8_t)(letter - 'a') < 6 ? letter - 'a' + 10 : -1;
}

int32_t blanks_byte(const uint8_t *text, uint32_t length) {
    if (length != 6 || !equal_bytes(text, (const uint8_t *)"<0x", 3) || text[5] != '>')
        return -1;
    int32_t high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

uint32_t blanks_decode(uint8_t *to, const uint8_t *from, uint32_t length) {
    uint32_t made = 0;
    for (uint32_t i = 0; i < length; i++) {
        int blank = from[i] == 0xE2 && length - i >= 3 && from[i + 1] == 0x96 && from[i + 2] == 0x81;
        to[made++] = blank ? ' ' : from[i];
        i += blank ? 2 : 0;
    }
    return made;
}

void blanks_begin(void) {
    used = 0;
}

struct stretch blanks_write(const uint8_t *at, const uint8_t *end, int prefix) {
    uint8_t *start = written + used;
    if (prefix)
        written[used++] = ' ';
    used += blanks_decode(written + used, at, (uint32_t)(end - at));
    return (struct stretch){start, written + used};
}

void blanks_learn(void) {
    const struct tokens *tokens = &vocabulary.tokens;
    for (uint32_t id = 0; id < tokens->count; id++)
        for (uint32_t i = tokens->offsets[id] + 1; i < tokens->offsets[id + 1]; i++)
            if (tokens->bytes[i] == ' ')
                joins[tokens->bytes[i - 1]] = 1;
}

const uint8_t *blanks_piece_end(const uint8_t *at, const uint8_t *end) {
    for (at++; at < end; at++)
        if (*at == ' ' && !joins[at[-1]])
            return at;
    return end;
}
