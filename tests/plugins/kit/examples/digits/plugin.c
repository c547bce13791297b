/* Tier mask, with the vocabulary: an answer is a number of three digits or more. */
#define SEALHOST_TIER_MASK
#define SEALHOST_VOCABULARY (8u << 20)
#include "sealhost_sampler.h"

static uint32_t digits[SEALHOST_VOCAB / 32u]; /* the mask of all tokens that are digits alone */

SEALHOST_EXPORT(init) int32_t init(void) {
    if (tokens.table.count > SEALHOST_VOCAB)
        return fail(SEALHOST_ERROR_CAPACITY, "init: more tokens than this guest has room for");
    for (uint32_t id = 0; id < tokens.table.count; id++) {
        uint32_t length, at = 0;
        const uint8_t *text = token_text(id, &length);
        while (at < length && text[at] >= '0' && text[at] <= '9')
            at++;
        if (length > 0 && at == length && token_type(id) == SEALHOST_TYPE_NORMAL)
            digits[id / 32] |= 1u << (id % 32);
    }
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK;
}

static int32_t sample(void) {
    uint32_t written = 0, length;
    for (uint32_t i = row->prompt_length; i < row->history_length; i++)
        if (history[i] < tokens.table.count && token_text(history[i], &length))
            written += length;
    copy_bytes(answer_words, digits, (row->vocab_size + 31) / 32 * 4);
    if (written >= 3 && tokens.table.eos >= 0)
        allow((uint32_t)tokens.table.eos);
    return answer_mask();
}
