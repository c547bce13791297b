/* Tier mask: whenever the host draws 7, three more ids follow without a step of the model. */
#define SEALHOST_TIER_MASK
#include "sealhost_sampler.h"

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK;
}

static int32_t sample(void) {
    if (row->history_length == row->prompt_length || history[row->history_length - 1] != 7 || row->vocab_size < 8)
        return answer(SEALHOST_PASS, 0);
    for (uint32_t i = 0; i < 3; i++)
        answer_words[i] = i + 1;
    return fast_forward(3);
}
