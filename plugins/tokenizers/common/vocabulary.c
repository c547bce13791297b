#include "vocabulary.h"

#include "arena.h"
#include "blanks.h"
#include "guest.h"
#include "sealhost_alphabet.h"
#include "sealhost_guest.h"
#include "special.h"

BESIDE_CONSTANTS struct vocabulary vocabulary;

static int32_t read_flags(struct section section, uint32_t tokens) {
    if (section.length < sizeof(struct sealhost_vocab_flags))
        return fail(SEALHOST_ERROR_INPUT, "vocabulary stream: the flags section is too short");
    uint32_t bits = load_u32(section.at);
    vocabulary.bos = load_i32(section.at + 4);
    vocabulary.eos = load_i32(section.at + 8);
    vocabulary.unknown = load_i32(section.at + 12);
    int32_t ids[] = {vocabulary.bos, vocabulary.eos, vocabulary.unknown};
    for (uint32_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (ids[i] < -1 || ids[i] >= (int32_t)tokens)
            return fail(SEALHOST_ERROR_INPUT, "vocabulary stream: the id of BOS, EOS or unknown is not in the vocabulary");
    vocabulary.add_bos = (bits & SEALHOST_VOCAB_ADD_BOS) && vocabulary.bos >= 0;
    vocabulary.add_eos = (bits & SEALHOST_VOCAB_ADD_EOS) && vocabulary.eos >= 0;
    vocabulary.add_space_prefix = (bits & SEALHOST_VOCAB_ADD_SPACE_PREFIX) != 0;
    return SEALHOST_OK;
}

static int is_normal(uint8_t type) {
    return type == SEALHOST_TYPE_NORMAL || type == 0; /* 0, GGUF's "undefined", is a normal one */
}

/* Types whose text stands for itself instead of spelling bytes (clause 4.6). */
static int is_literal(uint8_t type) {
    return type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_USER_DEFINED || type == SEALHOST_TYPE_UNKNOWN;
}

/* Whether byte-level BPE may produce this token: no control, unknown or unused one comes from text (clause 3.5). A
 * user-defined text is also a spelling only where both readings agree. */
static int is_mergeable(uint8_t type, const uint8_t *text, uint32_t length) {
    if (type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_UNKNOWN || type == SEALHOST_TYPE_UNUSED)
        return 0;
    for (uint32_t i = 0; type == SEALHOST_TYPE_USER_DEFINED && i < length; i++)
        if (text[i] < 33 || text[i] > 126)
            return 0;
    return length > 0;
}

/* Writes the bytes of one token of byte-level BPE at `to`, which lies at or below its text; returns their number. */
static uint32_t settle_alphabet(uint8_t *to, const uint8_t *text, uint32_t length, uint8_t type, int *found) {
    int32_t decoded = is_literal(type) ? -1 : alphabet_decode(to, text, length);
    *found = (decoded > 0 || is_literal(type)) && is_mergeable(type, text, length);
    if (decoded >= 0)
        return (uint32_t)decoded;
    move_bytes(to, text, length);
    return length;
}

/* The same for SentencePiece. A text with a real space in it is never found: spaces are spelled otherwise there. */
static uint32_t settle_blanks(uint8_t *to, const uint8_t *text, uint32_t length, uint8_t type, int *found) {
    int32_t byte = type == SEALHOST_TYPE_BYTE ? blanks_byte(text, length) : -1;
    if (byte >= 0) {
        *found = 0;
        *to = (uint8_t)byte;
        return 1;
    }
    *found = is_normal(type) && length > 0;
    for (uint32_t i = 0; i < length; i++)
        *found = *found && text[i] != ' ';
    if (!is_literal(type))
        return blanks_decode(to, text, length);
    move_bytes(to, text, length);
    return length;
}

/* Enters one settled token into the byte look-up and the special tokens, if its type asks for that. */
static int enter(uint32_t id, int found) {
    struct tokens *tokens = &vocabulary.tokens;
    uint8_t type = tokens->types[id];
    uint32_t start = tokens->offsets[id], length = tokens->offsets[id + 1] - start;
    int stands_for_byte = vocabulary.spelling == SPELLS_ALPHABET ? found : type == SEALHOST_TYPE_BYTE;
    if (length == 1 && stands_for_byte && tokens->byte_ids[tokens->bytes[start]] == NO_ID)
        tokens->byte_ids[tokens->bytes[start]] = id;
    int special =
        type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_USER_DEFINED || type == SEALHOST_TYPE_UNKNOWN;
    return !special || special_add(tokens, id);
}

/* Closes the gaps between token bytes, in place, and says of each id whether its bytes can be found. */
static int32_t settle(const struct texts *texts, uint32_t *offsets, uint8_t *found) {
    struct tokens *tokens = &vocabulary.tokens;
    uint32_t used = 0;
    for (uint32_t id = 0; id < texts->count; id++) {
        uint32_t length;
        const uint8_t *text = text_of(texts, id, &length);
        uint8_t type = tokens->types[id];
        int findable;
        if (type > SEALHOST_TYPE_BYTE)
            return fail_at("unknown type", id);
        offsets[id] = used;
        used += vocabulary.spelling == SPELLS_ALPHABET
                    ? settle_alphabet(texts->bytes + used, text, length, type, &findable)
                    : settle_blanks(texts->bytes + used, text, length, type, &findable);
        offsets[id + 1] = used;
        found[id] = (uint8_t)findable;
        if (!enter(id, findable))
            return fail_full();
    }
    return SEALHOST_OK;
}

/* Copies the settled bytes out of the stream, to where the tables lie. */
static int keep_bytes(struct tokens *tokens) {
    uint32_t length = tokens->offsets[tokens->count];
    uint8_t *bytes = arena_keep(length, 1);
    if (bytes)
        copy_bytes(bytes, tokens->bytes, length);
    tokens->bytes = bytes;
    return bytes != 0;
}

static int32_t build_tokens(const struct source *source) {
    struct tokens *tokens = &vocabulary.tokens;
    uint32_t count = source->tokens.count, mark = arena_mark();
    uint32_t *offsets = arena_keep((uint64_t)count + 1, sizeof *offsets);
    uint8_t *types = arena_keep(count, 1), *found = arena_take(count, 1);
    if (!offsets || !types || !found)
        return fail_full();
    copy_bytes(types, source->types, count);
    *tokens = (struct tokens){.count = count, .bytes = source->tokens.bytes, .offsets = offsets, .types = types};
    for (uint32_t byte = 0; byte < 256; byte++)
        tokens->byte_ids[byte] = NO_ID;
    int32_t status = settle(&source->tokens, offsets, found);
    if (!status && (!keep_bytes(tokens) || !tokens_index(tokens, found)))
        status = fail_full();
    arena_release(mark);
    return status;
}

int32_t vocabulary_read(uint8_t *stream, uint32_t length) {
    struct source source = {0};
    int32_t status = source_read(&source, stream, length);
    if (!status)
        status = guest_accept(&source, &vocabulary.spelling);
    if (!status)
        status = read_flags(source.flags, source.tokens.count);
    if (!status)
        status = build_tokens(&source);
    if (!status)
        status = guest_build(&source);
    if (!status)
        arena_wipe();
    return status;
}
