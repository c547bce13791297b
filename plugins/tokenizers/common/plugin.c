/* The exports of a tokenizer: sealhost.h's tokenizer, clauses 3.x and 4.x of plugins/README.md. */
#include "arena.h"
#include "encode.h"
#include "input.h"
#include "vocabulary.h"

#define SEALHOST_INPUT INPUT_BYTES
#define SEALHOST_IDS ENCODE_MOST(INPUT_BYTES)
#include "sealhost_tokenizer_areas.h"

enum state { LOADING, READY, REFUSED };
static BESIDE_CONSTANTS enum state state;

static uint32_t given_tokens(void) {
    return state == READY ? vocabulary.tokens.count : 0;
}

static const uint8_t *given_bytes(uint32_t id, uint32_t *length) {
    const struct tokens *tokens = &vocabulary.tokens;
    *length = tokens->types[id] == SEALHOST_TYPE_CONTROL ? 0 : tokens->offsets[id + 1] - tokens->offsets[id];
    return tokens->bytes + tokens->offsets[id];
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
    static BESIDE_CONSTANTS uint32_t received;
    if (state != LOADING)
        return fail(SEALHOST_ERROR_INPUT, "load: the vocabulary has been loaded or refused before");
    int32_t status = take_piece(length);
    received += length;
    if (!status && final)
        status = vocabulary_read(arena_begin(), received);
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
