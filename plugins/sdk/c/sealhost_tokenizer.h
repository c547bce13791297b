/* The part of a tokenizer that all tokenizers share: its areas, the vocabulary stream, and token_bytes.
 *
 * Include it in the one file of your tokenizer, define `ready` and export `encode` there:
 *
 *     #include "sealhost_tokenizer.h"
 *     static int32_t ready(void) { ... }     // once, when `vocabulary` is complete: build your tables
 *     SEALHOST_EXPORT(encode) int32_t encode(uint32_t length, uint32_t flags) { ... }   // input[] -> output[]
 *
 * What you may define before the include (room that nobody uses costs no memory):
 *
 *     SEALHOST_INPUT    bytes of text of one call
 *     SEALHOST_IDS      ids of one answer
 *     SEALHOST_STREAM   bytes of the vocabulary stream
 *
 * The stream stays where it was loaded. Texts of byte-level vocabularies (model "gpt2") are turned into the bytes that
 * they spell, in place; of another model nothing is turned, so refuse in `ready` what you do not know (clause 3.8).
 * Clause numbers are those of plugins/README.md.
 */
#ifndef SEALHOST_TOKENIZER_H
#define SEALHOST_TOKENIZER_H

#include "sealhost_alphabet.h"
#include "sealhost_tokenizer_areas.h"

#ifndef SEALHOST_STREAM
#define SEALHOST_STREAM (24u << 20) /* bytes of the largest vocabulary: 262,144 tokens with as many merges take 12 MiB */
#endif

static uint8_t sealhost_stream[SEALHOST_STREAM];
static uint32_t sealhost_received;

/* Columns lie in the stream and are not aligned: read them with load_u32 or the functions below. */
struct sealhost_column {
    uint32_t count;
    const uint8_t *offsets; /* uint32[count + 1] */
    const uint8_t *bytes;
};

static struct {
    int loaded;
    const uint8_t *model, *pre; /* ASCII, not terminated */
    uint32_t model_length, pre_length;
    struct sealhost_vocab_flags flags;
    const uint8_t *types; /* SEALHOST_TYPE_*; 0 counts as normal (clause 4.4) */
    struct sealhost_column tokens; /* the bytes that each id stands for */
    struct sealhost_column merges; /* "left right", as the GGUF spells them; the best one first */
} vocabulary;

static int32_t ready(void);

/* The bytes of an entry, and their number. */
static inline const uint8_t *column_entry(const struct sealhost_column *column, uint32_t index, uint32_t *length) {
    uint32_t start = load_u32(column->offsets + 4u * index);
    *length = load_u32(column->offsets + 4u * index + 4) - start;
    return column->bytes + start;
}

static inline uint32_t token_type(uint32_t id) {
    return vocabulary.types[id] ? vocabulary.types[id] : SEALHOST_TYPE_NORMAL;
}

/* ---- the stream ---------------------------------------------------------------------------------------- */

/* Clauses 4.3 and 4.7: reads offsets and bytes that fill `payload` to its end. */
static inline int sealhost_read_column(struct sealhost_column *to, const uint8_t *payload, uint32_t length, uint32_t count) {
    if (length / 4 <= count)
        return 0;
    uint32_t room = length - 4 * (count + 1), last = 0;
    *to = (struct sealhost_column){count, payload, payload + 4 * (count + 1)};
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t offset = load_u32(payload + 4 * i);
        if (offset < last || (i == 0 && offset != 0))
            return 0;
        last = offset;
    }
    return last == room;
}

static inline int sealhost_read_section(uint32_t tag, const uint8_t *at, uint32_t length) {
    uint32_t count = length >= 4 ? load_u32(at) : 0;
    switch (tag) {
    case SEALHOST_VOCAB_MODEL:
        vocabulary.model = at, vocabulary.model_length = length;
        return 1;
    case SEALHOST_VOCAB_PRE:
        vocabulary.pre = at, vocabulary.pre_length = length;
        return 1;
    case SEALHOST_VOCAB_FLAGS:
        if (length < sizeof vocabulary.flags)
            return 0;
        copy_bytes(&vocabulary.flags, at, sizeof vocabulary.flags);
        return 1;
    case SEALHOST_VOCAB_TOKENS: /* types, scores, offsets, bytes */
        if (length < 4 || count > (length - 4) / 9)
            return 0;
        vocabulary.types = at + 4;
        return sealhost_read_column(&vocabulary.tokens, at + 4 + 5 * count, length - 4 - 5 * count, count);
    case SEALHOST_VOCAB_MERGES:
        return length >= 4 && sealhost_read_column(&vocabulary.merges, at + 4, length - 4, count);
    default:
        return 1; /* clause 4.1: of a later version */
    }
}

/* Compacts the texts into bytes: what is spelled is never longer than its spelling. */
static inline void sealhost_spell_all(void) {
    static const uint32_t spelled = 1u << SEALHOST_TYPE_NORMAL | 1u << SEALHOST_TYPE_UNUSED | 1u << SEALHOST_TYPE_BYTE;
    uint8_t *offsets = (uint8_t *)vocabulary.tokens.offsets, *bytes = (uint8_t *)vocabulary.tokens.bytes;
    uint32_t end = 0, start = 0;
    for (uint32_t id = 0; id < vocabulary.tokens.count; id++) {
        uint32_t next = load_u32(offsets + 4 * id + 4), length = next - start;
        uint32_t type = token_type(id);
        int32_t made = type < 32 && spelled >> type & 1 ? alphabet_decode(bytes + end, bytes + start, length) : -1;
        if (made < 0) /* it stands for itself */
            move_bytes(bytes + end, bytes + start, length);
        end += made < 0 ? length : (uint32_t)made;
        start = next;
        store_u32(offsets + 4 * id + 4, end);
    }
}

static inline int sealhost_vocabulary_is(const char *model) {
    uint32_t length = 0;
    while (model[length])
        length++;
    return length == vocabulary.model_length && equal_bytes(vocabulary.model, (const uint8_t *)model, length);
}

/* Clauses 4.1 and 4.7. */
static inline int sealhost_read_stream(void) {
    uint32_t at = 0, last = 0, seen = 0;
    while (at < sealhost_received) {
        if (sealhost_received - at < 8)
            return 0;
        uint32_t tag = load_u32(sealhost_stream + at), length = load_u32(sealhost_stream + at + 4);
        at += 8;
        if (tag <= last || length > sealhost_received - at || !sealhost_read_section(tag, sealhost_stream + at, length))
            return 0;
        seen += tag <= SEALHOST_VOCAB_MERGES;
        last = tag;
        at += length;
    }
    int32_t count = (int32_t)vocabulary.tokens.count;
    return seen == SEALHOST_VOCAB_MERGES && vocabulary.flags.bos < count && vocabulary.flags.eos < count;
}

/* ---- what the areas and the host ask for ------------------------------------------------------------------- */

static uint32_t given_tokens(void) {
    return vocabulary.loaded ? vocabulary.tokens.count : 0;
}

static const uint8_t *given_bytes(uint32_t id, uint32_t *length) {
    const uint8_t *bytes = column_entry(&vocabulary.tokens, id, length);
    if (token_type(id) == SEALHOST_TYPE_CONTROL)
        *length = 0;
    return bytes;
}

SEALHOST_EXPORT(load) int32_t load(uint32_t length, uint32_t final) {
    if (vocabulary.loaded || length > sizeof input)
        return fail(SEALHOST_ERROR_INPUT, "load: expected pieces of the stream, each within the input area, once");
    if (length > sizeof sealhost_stream - sealhost_received)
        return fail(SEALHOST_ERROR_CAPACITY, "load: the vocabulary stream does not fit into this guest's memory");
    copy_bytes(sealhost_stream + sealhost_received, input, length);
    sealhost_received += length;
    if (!final)
        return SEALHOST_OK;
    vocabulary.loaded = 1;
    if (!sealhost_read_stream())
        return fail(SEALHOST_ERROR_INPUT, "load: the vocabulary stream is malformed");
    if (sealhost_vocabulary_is("gpt2"))
        sealhost_spell_all();
    return ready();
}

#endif /* SEALHOST_TOKENIZER_H */
