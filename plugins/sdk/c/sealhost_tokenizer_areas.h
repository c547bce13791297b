/* What every tokenizer exports alike: its areas, the layout that publishes them, and token_bytes.
 *
 * sealhost_tokenizer.h includes it. A guest that reads the vocabulary stream in its own way includes it in one file alone,
 * and defines there:
 *
 *     static uint32_t given_tokens(void) { ... }                                  // ids that there are; 0 before they are loaded
 *     static const uint8_t *given_bytes(uint32_t id, uint32_t *length) { ... }    // what an id spells: length 0 for control tokens
 *
 * Clause numbers are those of plugins/README.md.
 */
#ifndef SEALHOST_TOKENIZER_AREAS_H
#define SEALHOST_TOKENIZER_AREAS_H

#define SEALHOST_ERROR_AREA
#include "sealhost_guest.h"

#ifndef SEALHOST_INPUT
#define SEALHOST_INPUT (1u << 20) /* bytes of text of one call */
#endif
#ifndef SEALHOST_IDS
#define SEALHOST_IDS (SEALHOST_INPUT + 3u) /* an id for each byte, a space before them, BOS and EOS */
#endif

static uint8_t input[SEALHOST_INPUT] __attribute__((aligned(8)));
static uint32_t output[SEALHOST_IDS] __attribute__((aligned(8)));
static struct sealhost_tokenizer_layout sealhost_published;

static uint32_t given_tokens(void);
static const uint8_t *given_bytes(uint32_t id, uint32_t *length);

SEALHOST_EXPORT(sealhost_tokenizer_v1) int32_t sealhost_tokenizer_v1(void) {
    return SEALHOST_ABI_MINOR;
}

SEALHOST_EXPORT(layout) int32_t layout(void) {
    sealhost_published = (struct sealhost_tokenizer_layout){
        .size = sizeof sealhost_published,
        .minor = SEALHOST_ABI_MINOR,
        .input = sealhost_offset(input),
        .input_capacity = sizeof input,
        .output = sealhost_offset(output),
        .output_capacity = sizeof output,
        .error = sealhost_offset(sealhost_error_area),
        .error_capacity = SEALHOST_ERROR_BYTES,
    };
    return (int32_t)sealhost_offset(&sealhost_published);
}

/* Clause 3.7. */
SEALHOST_EXPORT(token_bytes) int32_t token_bytes(uint32_t first, uint32_t count) {
    uint32_t tokens = given_tokens(), length;
    if (!tokens || first > tokens || count > tokens - first)
        return fail(SEALHOST_ERROR_INPUT, "token_bytes: the ids are not in the vocabulary");
    uint32_t needed = 4 * count; /* all of them lie in this memory, so the sum stays far below SEALHOST_ERROR */
    for (uint32_t id = first; id < first + count; id++) {
        given_bytes(id, &length);
        needed += length;
    }
    if (needed > sizeof output)
        return -(int32_t)needed;
    uint8_t *to = (uint8_t *)output + 4 * count;
    for (uint32_t id = first; id < first + count; id++) {
        const uint8_t *from = given_bytes(id, &length);
        output[id - first] = length;
        copy_bytes(to, from, length);
        to += length;
    }
    return (int32_t)needed;
}

#endif /* SEALHOST_TOKENIZER_AREAS_H */
