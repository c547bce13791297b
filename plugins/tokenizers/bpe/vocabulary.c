#include "vocabulary.h"

#include "alphabet.h"
#include "arena.h"
#include "sealhost_guest.h"
#include "special.h"

#define SECTION_HEADER_BYTES 8u

/* A section's payload; `at` is 0 when the stream has none. */
struct section {
    uint8_t *at;
    uint32_t length;
};

/* By tag; tags above the last known one are skipped, so that a later minor version can add some. */
struct sections {
    struct section by_tag[SEALHOST_VOCAB_MERGES + 1];
};

/* A column of texts: that of element i is bytes[offset(i)] up to bytes[offset(i + 1)]. */
struct texts {
    uint32_t count;
    const uint8_t *offsets; /* u32[count + 1], unaligned; checked */
    uint8_t *bytes;
};

static int32_t fail_at(const char *what, uint32_t index) {
    error_begin("vocabulary stream: ");
    error_text(what);
    error_text(" at element ");
    error_number(index);
    return SEALHOST_ERROR_INPUT;
}

/* An unknown value of a metadata key: names the key and the value. */
static int32_t fail_unsupported(const char *key, const char *known, struct section value) {
    error_begin(key);
    error_text(": expected ");
    error_text(known);
    error_text(", got '");
    error_bytes(value.at, value.length < 64 ? value.length : 64);
    error_text("'");
    return SEALHOST_ERROR_UNSUPPORTED;
}

static int32_t find_sections(struct sections *found, uint8_t *stream, uint32_t length) {
    uint32_t at = 0, previous = 0;
    while (at < length) {
        if (length - at < SECTION_HEADER_BYTES)
            return fail(SEALHOST_ERROR_INPUT, "vocabulary stream: ends inside a section header");
        uint32_t tag = load_u32(stream + at), size = load_u32(stream + at + 4);
        at += SECTION_HEADER_BYTES;
        if (size > length - at)
            return fail_at("section is longer than the stream", tag);
        if (tag <= previous)
            return fail_at("sections are not in ascending order", tag);
        if (tag <= SEALHOST_VOCAB_MERGES)
            found->by_tag[tag] = (struct section){stream + at, size};
        previous = tag;
        at += size;
    }
    for (uint32_t tag = SEALHOST_VOCAB_MODEL; tag <= SEALHOST_VOCAB_MERGES; tag++)
        if (!found->by_tag[tag].at)
            return fail_at("section is missing", tag);
    return SEALHOST_OK;
}

/* Checks an offsets column of count + 1 entries at `at` and the bytes behind it, which must end with the section. */
static int32_t read_texts(struct texts *texts, uint32_t count, uint8_t *at, uint64_t room) {
    uint64_t column = ((uint64_t)count + 1) * 4;
    if (column > room)
        return fail_at("offsets reach beyond the section", count);
    *texts = (struct texts){count, at, at + column};
    uint32_t previous = 0;
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t offset = load_u32(at + (uint64_t)i * 4);
        if (offset < previous || (i == 0 && offset != 0))
            return fail_at("offset is out of order", i);
        previous = offset;
    }
    if (previous != room - column) /* so none of them lies beyond it */
        return fail_at("last offset is not the section's end", count);
    return SEALHOST_OK;
}

static int32_t read_model(struct vocabulary *vocabulary, const struct sections *sections) {
    struct section model = sections->by_tag[SEALHOST_VOCAB_MODEL], pre = sections->by_tag[SEALHOST_VOCAB_PRE];
    if (model.length != 4 || !equal_bytes(model.at, (const uint8_t *)"gpt2", 4))
        return fail_unsupported("tokenizer.ggml.model", "'gpt2' (byte-level BPE)", model);
    vocabulary->pre = pre_kind_of(pre.at, pre.length);
    if (vocabulary->pre == PRE_UNKNOWN)
        return fail_unsupported("tokenizer.ggml.pre", "'gpt-2', 'smollm', 'llama-bpe' or 'qwen2'", pre);
    vocabulary->whole_pieces = vocabulary->pre == PRE_LLAMA_BPE;
    return SEALHOST_OK;
}

static int32_t read_flags(struct vocabulary *vocabulary, struct section section, uint32_t tokens) {
    if (section.length < sizeof(struct sealhost_vocab_flags))
        return fail(SEALHOST_ERROR_INPUT, "vocabulary stream: the flags section is too short");
    uint32_t bits = load_u32(section.at);
    vocabulary->bos = load_i32(section.at + 4);
    vocabulary->eos = load_i32(section.at + 8);
    if (vocabulary->bos < -1 || vocabulary->eos < -1 || vocabulary->bos >= (int32_t)tokens ||
        vocabulary->eos >= (int32_t)tokens)
        return fail(SEALHOST_ERROR_INPUT, "vocabulary stream: the id of BOS or EOS is not in the vocabulary");
    vocabulary->add_bos = (bits & SEALHOST_VOCAB_ADD_BOS) && vocabulary->bos >= 0;
    vocabulary->add_eos = (bits & SEALHOST_VOCAB_ADD_EOS) && vocabulary->eos >= 0;
    return SEALHOST_OK;
}

/* Types whose text stands for itself instead of spelling bytes (clause 4.6). */
static int is_literal(uint8_t type) {
    return type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_USER_DEFINED || type == SEALHOST_TYPE_UNKNOWN;
}

/* Whether BPE may produce this token: no control, unknown or unused one comes from text (clause 3.5). A user-defined
 * text is also a spelling only where both readings agree. */
static int is_mergeable(uint8_t type, const uint8_t *text, uint32_t length) {
    if (type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_UNKNOWN || type == SEALHOST_TYPE_UNUSED)
        return 0;
    for (uint32_t i = 0; type == SEALHOST_TYPE_USER_DEFINED && i < length; i++)
        if (text[i] < 33 || text[i] > 126)
            return 0;
    return length > 0;
}

/* Writes the bytes of one token at `to`, which lies at or below its text; returns their number. `found` tells
 * whether BPE may find it. */
static uint32_t settle(uint8_t *to, const uint8_t *text, uint32_t length, uint8_t type, int *found) {
    int32_t decoded = alphabet_length(text, length);
    *found = decoded > 0 && is_mergeable(type, text, length);
    if (decoded > 0 && !is_literal(type)) {
        alphabet_decode(to, text, length);
        return (uint32_t)decoded;
    }
    move_bytes(to, text, length);
    return length;
}

/* Enters one settled token into the lookups that its type asks for. */
static int enter(struct tables *tables, uint32_t id, int found) {
    uint8_t type = tables->tokens.types[id];
    if (found)
        tables_add_token(tables, id);
    int special = type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_USER_DEFINED;
    return !special || special_add(&tables->tokens, id);
}

/* Closes the gaps between token bytes, in place, and makes them findable. */
static int32_t fill_tokens(struct tables *tables, const struct texts *texts, const uint8_t *types, uint32_t *offsets) {
    tables->tokens = (struct tokens){texts->count, texts->bytes, offsets, types};
    uint32_t used = 0;
    for (uint32_t id = 0; id < texts->count; id++) {
        uint32_t start = load_u32(texts->offsets + id * 4), length = load_u32(texts->offsets + id * 4 + 4) - start;
        int found;
        if (types[id] > SEALHOST_TYPE_BYTE) /* 0, GGUF's "undefined", is a normal one */
            return fail_at("unknown type", id);
        offsets[id] = used;
        used += settle(texts->bytes + used, texts->bytes + start, length, types[id], &found);
        offsets[id + 1] = used;
        if (!enter(tables, id, found))
            return fail(SEALHOST_ERROR_CAPACITY, "the vocabulary does not fit into this guest's memory");
    }
    return SEALHOST_OK;
}

static uint32_t space_in(const uint8_t *text, uint32_t length) {
    uint32_t at = 1;
    while (at < length && text[at] != ' ')
        at++;
    return at;
}

/* One merge "left right". A side or a result that is no findable token can never take part: it is left out, and
 * so is a text outside the alphabet. Decodes in place: the two sides become neighbours, which spell the result. */
static int32_t fill_merge(struct tables *tables, uint32_t rank, uint8_t *text, uint32_t length) {
    uint32_t space = space_in(text, length);
    if (space + 1 >= length)
        return fail_at("merge is not 'left right'", rank);
    int32_t left = alphabet_length(text, space), right = alphabet_length(text + space + 1, length - space - 1);
    if (left <= 0 || right <= 0)
        return SEALHOST_OK;
    alphabet_decode(text, text, space);
    alphabet_decode(text + left, text + space + 1, length - space - 1);
    uint32_t first = tables_find(tables, text, (uint32_t)left);
    uint32_t second = tables_find(tables, text + left, (uint32_t)right);
    uint32_t merged = tables_find(tables, text, (uint32_t)(left + right));
    if (first != NO_ID && second != NO_ID && merged != NO_ID)
        tables_add_merge(tables, rank, first, second, merged);
    return SEALHOST_OK;
}

static int32_t fill_merges(struct tables *tables, const struct texts *merges) {
    for (uint32_t rank = 0; rank < merges->count; rank++) {
        uint32_t start = load_u32(merges->offsets + rank * 4);
        uint32_t length = load_u32(merges->offsets + rank * 4 + 4) - start;
        int32_t status = fill_merge(tables, rank, merges->bytes + start, length);
        if (status)
            return status;
    }
    return SEALHOST_OK;
}

/* Count, types, scores (not used), texts. */
static int32_t read_tokens(struct texts *texts, uint8_t **types, struct section section) {
    uint32_t count = section.length >= 4 ? load_u32(section.at) : 0;
    if (count == 0 || count > MAX_TOKENS)
        return fail_at("token count is 0 or too large", count);
    uint64_t fixed = 4 + (uint64_t)count * 5;
    if (fixed > section.length)
        return fail_at("token columns reach beyond the section", count);
    *types = section.at + 4;
    return read_texts(texts, count, section.at + fixed, section.length - fixed);
}

static int32_t read_merges(struct texts *texts, struct section section) {
    uint32_t count = section.length >= 4 ? load_u32(section.at) : MAX_MERGES + 1;
    if (count > MAX_MERGES)
        return fail_at("merge count is missing or too large", count);
    return read_texts(texts, count, section.at + 4, section.length - 4);
}

static int32_t build(struct tables *tables, const struct texts *tokens, uint8_t *types, const struct texts *merges) {
    uint32_t *offsets = arena_take((uint64_t)tokens->count + 1, sizeof *offsets);
    uint8_t *kept_types = arena_take(tokens->count, 1);
    if (!offsets || !kept_types || !tables_reserve(tables, tokens->count, merges->count))
        return fail(SEALHOST_ERROR_CAPACITY, "the vocabulary does not fit into this guest's memory");
    copy_bytes(kept_types, types, tokens->count);
    int32_t status = fill_tokens(tables, tokens, kept_types, offsets);
    return status ? status : fill_merges(tables, merges);
}

/* All of the stream but the `kept` token bytes is dead: as zeros it costs a snapshot nothing. */
static void forget_stream(uint8_t *stream, uint32_t length, uint8_t *bytes, uint32_t kept) {
    clear_bytes(stream, (size_t)(bytes - stream));
    clear_bytes(bytes + kept, (size_t)(stream + length - (bytes + kept)));
}

int32_t vocabulary_read(struct vocabulary *vocabulary, uint8_t *stream, uint32_t length) {
    struct sections sections = {0};
    struct texts tokens, merges;
    uint8_t *types;
    int32_t status = find_sections(&sections, stream, length);
    if (!status)
        status = read_model(vocabulary, &sections);
    if (!status)
        status = read_tokens(&tokens, &types, sections.by_tag[SEALHOST_VOCAB_TOKENS]);
    if (!status)
        status = read_flags(vocabulary, sections.by_tag[SEALHOST_VOCAB_FLAGS], tokens.count);
    if (!status)
        status = read_merges(&merges, sections.by_tag[SEALHOST_VOCAB_MERGES]);
    if (!status)
        status = build(&vocabulary->tables, &tokens, types, &merges);
    if (status)
        return status;
    forget_stream(stream, length, tokens.bytes, vocabulary->tables.tokens.offsets[tokens.count]);
    return SEALHOST_OK;
}
