/* @NAME@: the longest token that fits, from left to right, for byte-level vocabularies (model "gpt2").
 *
 * It spells every text, but not with the ids that a model was trained on: change `encode`. `vocabulary` holds tokens,
 * merges and flags; input[length] is the text; ids go to output[].
 */
#include "sealhost_tokenizer.h"

#define SLOTS (1u << 20) /* of each table; twice the largest vocabulary, so that a search stays short */

/* Hash tables of ids + 1, by the bytes that the ids stand for. */
static uint32_t plain[SLOTS], special[SLOTS];
static uint32_t longest;

/* FNV-1a, which grows byte by byte along the text. */
static uint32_t hash_more(uint32_t hash, uint8_t byte) {
    return (hash ^ byte) * 16777619u;
}

#define HASH_OF_NOTHING 2166136261u

/* The slot of these bytes, or the free one where they belong. */
static uint32_t *slot_of(uint32_t *table, uint32_t hash, const uint8_t *bytes, uint32_t length) {
    for (uint32_t at = hash ^ hash >> 15;; at++) {
        uint32_t *slot = &table[at % SLOTS], found;
        if (!*slot)
            return slot;
        const uint8_t *text = column_entry(&vocabulary.tokens, *slot - 1, &found);
        if (found == length && equal_bytes(text, bytes, length))
            return slot;
    }
}

static int32_t ready(void) {
    if (!sealhost_vocabulary_is("gpt2"))
        return fail(SEALHOST_ERROR_UNSUPPORTED, "load: expected tokenizer.ggml.model gpt2, got another");
    if (vocabulary.tokens.count > SLOTS / 2)
        return fail(SEALHOST_ERROR_CAPACITY, "load: expected at most 524288 tokens, got more");
    for (uint32_t id = 0; id < vocabulary.tokens.count; id++) {
        uint32_t type = token_type(id), length, hash = HASH_OF_NOTHING;
        const uint8_t *text = column_entry(&vocabulary.tokens, id, &length);
        if (!length || type == SEALHOST_TYPE_UNKNOWN || type == SEALHOST_TYPE_UNUSED)
            continue; /* clause 3.5: never from text */
        for (uint32_t i = 0; i < length; i++)
            hash = hash_more(hash, text[i]);
        int is_special = type == SEALHOST_TYPE_CONTROL || type == SEALHOST_TYPE_USER_DEFINED;
        uint32_t *slot = slot_of(is_special ? special : plain, hash, text, length);
        if (!*slot)
            *slot = id + 1;
        longest = length > longest ? length : longest;
    }
    return SEALHOST_OK;
}

/* The longest special token at the front of the text, else the longest plain one; its id + 1, or 0. */
static uint32_t match(const uint8_t *text, uint32_t length, int controls, uint32_t *used) {
    uint32_t hash = HASH_OF_NOTHING, best = 0, best_special = 0;
    uint32_t plain_length = 0, special_length = 0;
    for (uint32_t i = 0; i < length && i < longest; i++) {
        hash = hash_more(hash, text[i]);
        uint32_t id = *slot_of(plain, hash, text, i + 1), other = *slot_of(special, hash, text, i + 1);
        if (id)
            best = id, plain_length = i + 1;
        if (other && (controls || token_type(other - 1) != SEALHOST_TYPE_CONTROL)) /* clause 3.4 */
            best_special = other, special_length = i + 1;
    }
    *used = best_special ? special_length : plain_length;
    return best_special ? best_special : best;
}

SEALHOST_EXPORT(encode) int32_t encode(uint32_t length, uint32_t flags) {
    uint32_t count = 0, used;
    if (!vocabulary.loaded || length > sizeof input)
        return fail(SEALHOST_ERROR_INPUT, "encode: expected a loaded vocabulary and a text within the input area");
    int add = flags & SEALHOST_ADD_SPECIAL ? 1 : 0, controls = flags & SEALHOST_PARSE_SPECIAL ? 1 : 0;
    int adds_bos = add && vocabulary.flags.bits & SEALHOST_VOCAB_ADD_BOS && vocabulary.flags.bos >= 0;
    int adds_eos = add && vocabulary.flags.bits & SEALHOST_VOCAB_ADD_EOS && vocabulary.flags.eos >= 0;
    for (uint32_t at = 0; at < length; at += used) {
        uint32_t found = match(input + at, length - at, controls, &used);
        if (!found) {
            used = 1; /* clause 3.3: a byte of which the vocabulary has no token is left out */
            continue;
        }
        if (!count && adds_bos && found - 1 != (uint32_t)vocabulary.flags.bos) /* clause 3.6: never doubled */
            output[count++] = (uint32_t)vocabulary.flags.bos;
        output[count++] = found - 1;
    }
    if (!count && adds_bos)
        output[count++] = (uint32_t)vocabulary.flags.bos;
    if (adds_eos && (!count || output[count - 1] != (uint32_t)vocabulary.flags.eos))
        output[count++] = (uint32_t)vocabulary.flags.eos;
    return (int32_t)count;
}
