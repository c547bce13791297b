/* The exports of a tokenizer: sealhost.h's tokenizer, clauses 3.x and 4.x of plugins/README.md. */
#define SEALHOST_ERROR_AREA
#include "arena.h"
#include "encode.h"
#include "input.h"
#include "sealhost_guest.h"
#include "vocabulary.h"

static uint8_t input[INPUT_BYTES] __attribute__((aligned(8)));
static uint32_t output[ENCODE_MOST(INPUT_BYTES)] __attribute__((aligned(8)));
static struct sealhost_tokenizer_layout published;

enum state { LOADING, READY, REFUSED };
static enum state state;

SEALHOST_EXPORT(sealhost_tokenizer_v1) int32_t sealhost_tokenizer_v1(void) {
    return SEALHOST_ABI_MINOR;
}

SEALHOST_EXPORT(layout) int32_t layout(void) {
    published = (struct sealhost_tokenizer_layout){
        .size = sizeof published,
        .minor = SEALHOST_ABI_MINOR,
        .input = sealhost_offset(input),
        .input_capacity = sizeof input,
        .output = sealhost_offset(output),
        .output_capacity = sizeof output,
        .error = sealhost_offset(sealhost_error_area),
        .error_capacity = SEALHOST_ERROR_BYTES,
    };
    return (int32_t)sealhost_offset(&published);
}

static int32_t take_piece(uint32_t length) {
    if (length > sizeof input)
        return fail(SEALHOST_ERROR_INPUT, "load: the piece is longer than the input area");
    uint8_t *at = arena_take(length, 1);
    if (!at)
        return fail(SEALHOST_ERROR_CAPACITY, "load: the vocabulary stream does not fit into this guest's memory");
    copy_bytes(at, input, length);
    return SEALHOST_OK;
}

SEALHOST_EXPORT(load) int32_t load(uint32_t length, uint32_t final) {
    static uint32_t received;
    if (state != LOADING)
        return fail(SEALHOST_ERROR_INPUT, "load: the vocabulary has been loaded or refused before");
    int32_t status = take_piece(length);
    received += length;
    if (!status && final)
        status = vocabulary_read(arena, received);
    if (status)
        state = REFUSED;
    else if (final)
        state = READY;
    return status;
}

SEALHOST_EXPORT(encode) int32_t encode(uint32_t length, uint32_t flags) {
    if (state != READY)
        return fail(SEALHOST_ERROR_INPUT, "encode: no vocabulary is loaded");
    if (length > sizeof input)
        return fail(SEALHOST_ERROR_INPUT, "encode: the text is longer than the input area");
    if (flags & ~(uint32_t)(SEALHOST_ADD_SPECIAL | SEALHOST_PARSE_SPECIAL))
        return fail(SEALHOST_ERROR_UNSUPPORTED, "encode: unknown flags");
    int32_t count = encode_text(input, length, flags, output);
    return count < 0 ? fail(SEALHOST_ERROR_CAPACITY, "encode: a piece of the text is too long to merge") : count;
}

/* Bytes that token_bytes gives for an id: control tokens have none. */
static uint32_t given_length(const struct tokens *tokens, uint32_t id) {
    return tokens->types[id] == SEALHOST_TYPE_CONTROL ? 0 : tokens->offsets[id + 1] - tokens->offsets[id];
}

SEALHOST_EXPORT(token_bytes) int32_t token_bytes(uint32_t first, uint32_t count) {
    const struct tokens *tokens = &vocabulary.tokens;
    if (state != READY || first > tokens->count || count > tokens->count - first)
        return fail(SEALHOST_ERROR_INPUT, "token_bytes: the ids are not in the vocabulary");
    uint64_t needed = (uint64_t)count * 4;
    for (uint32_t id = first; id < first + count; id++)
        needed += given_length(tokens, id);
    if (needed > sizeof output)
        return -(int32_t)needed; /* at most 4 MiB of lengths and the arena: above SEALHOST_ERROR */
    uint8_t *to = (uint8_t *)output + (uint64_t)count * 4;
    for (uint32_t id = first; id < first + count; id++) {
        uint32_t length = given_length(tokens, id);
        output[id - first] = length;
        copy_bytes(to, tokens->bytes + tokens->offsets[id], length);
        to += length;
    }
    return (int32_t)needed;
}
