/* Takes the vocabulary stream of sealhost.h apart. Every count, length and offset is checked before use (clause 4.7). */
#ifndef STREAM_H
#define STREAM_H

#include <stdint.h>

/* A section's payload; `at` is 0 when the stream has none. */
struct section {
    uint8_t *at;
    uint32_t length;
};

/* A column of texts: that of element i is bytes[offset(i)] up to bytes[offset(i + 1)]. */
struct texts {
    uint32_t count;
    const uint8_t *offsets; /* u32[count + 1], unaligned; checked */
    uint8_t *bytes;
};

struct source {
    struct section model, pre, flags;
    struct texts tokens;
    const uint8_t *types;  /* u8[tokens.count] */
    const uint8_t *scores; /* f32[tokens.count], unaligned */
    struct texts merges;
};

/* Reads `length` bytes. Returns SEALHOST_OK or an error whose text is set. */
int32_t source_read(struct source *source, uint8_t *stream, uint32_t length);

/* The bytes of an element, and their number. */
uint8_t *text_of(const struct texts *texts, uint32_t index, uint32_t *length);

/* Whether a section is exactly this text. */
int section_is(struct section section, const char *text);

/* Errors: about one element, and about an unknown value of a metadata key. */
int32_t fail_at(const char *what, uint32_t index);
int32_t fail_unsupported(const char *key, const char *known, struct section value);
int32_t fail_full(void);

#endif
