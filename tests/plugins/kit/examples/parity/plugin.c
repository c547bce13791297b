/* Tier mask: even ids at even places of the answer, odd ids at odd ones. */
#define SEALHOST_TIER_MASK
#include "sealhost_sampler.h"

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK;
}

static int32_t sample(void) {
    allow_none();
    for (uint32_t id = (row->history_length - row->prompt_length) % 2; id < row->vocab_size; id += 2)
        allow(id);
    if (row->vocab_size == 1)
        allow(0);
    return answer_mask();
}
