#include "stream.h"

#include "sealhost_guest.h"

/* Largest vocabulary and merge list that are read at all; the arena may refuse earlier. */
#define MAX_TOKENS (1u << 20)
#define MAX_MERGES (1u << 21)

#define SECTION_HEADER_BYTES 8u

/* By tag; tags above the last known one are skipped, so that a later minor version can add some. */
struct sections {
    struct section by_tag[SEALHOST_VOCAB_MERGES + 1];
};

int32_t fail_at(const char *what, uint32_t index) {
    error_begin("vocabulary stream: ");
    error_text(what);
    error_text(" at element ");
    error_number(index);
    return SEALHOST_ERROR_INPUT;
}

int32_t fail_unsupported(const char *key, const char *known, struct section value) {
    error_begin(key);
    error_text(": expected ");
    error_text(known);
    error_text(", got '");
    error_bytes(value.at, value.length < 64 ? value.length : 64);
    error_text("'");
    return SEALHOST_ERROR_UNSUPPORTED;
}

int32_t fail_full(void) {
    return fail(SEALHOST_ERROR_CAPACITY, "the vocabulary does not fit into this guest's memory");
}

int section_is(struct section section, const char *text) {
    uint32_t length = 0;
    while (text[length])
        length++;
    return section.length == length && equal_bytes(section.at, (const uint8_t *)text, length);
}

uint8_t *text_of(const struct texts *texts, uint32_t index, uint32_t *length) {
    uint32_t start = load_u32(texts->offsets + (uint64_t)index * 4);
    *length = load_u32(texts->offsets + (uint64_t)index * 4 + 4) - start;
    return texts->bytes + start;
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

/* Count, types, scores, texts. */
static int32_t read_tokens(struct source *source, struct section section) {
    uint32_t count = section.length >= 4 ? load_u32(section.at) : 0;
    if (count == 0 || count > MAX_TOKENS)
        return fail_at("token count is 0 or too large", count);
    uint64_t fixed = 4 + (uint64_t)count * 5;
    if (fixed > section.length)
        return fail_at("token columns reach beyond the section", count);
    source->types = section.at + 4;
    source->scores = section.at + 4 + count;
    return read_texts(&source->tokens, count, section.at + fixed, section.length - fixed);
}

static int32_t read_merges(struct texts *texts, struct section section) {
    uint32_t count = section.length >= 4 ? load_u32(section.at) : MAX_MERGES + 1;
    if (count > MAX_MERGES)
        return fail_at("merge count is missing or too large", count);
    return read_texts(texts, count, section.at + 4, section.length - 4);
}

int32_t source_read(struct source *source, uint8_t *stream, uint32_t length) {
    struct sections sections = {0};
    int32_t status = find_sections(&sections, stream, length);
    if (status)
        return status;
    source->model = sections.by_tag[SEALHOST_VOCAB_MODEL];
    source->pre = sections.by_tag[SEALHOST_VOCAB_PRE];
    source->flags = sections.by_tag[SEALHOST_VOCAB_FLAGS];
    status = read_tokens(source, sections.by_tag[SEALHOST_VOCAB_TOKENS]);
    return status ? status : read_merges(&source->merges, sections.by_tag[SEALHOST_VOCAB_MERGES]);
}
