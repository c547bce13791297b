/* Tier topk:8: the second best at even places of the answer; elsewhere the host draws from all but the best. */
#define SEALHOST_CANDIDATES 8
#include "sealhost_sampler.h"

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK;
}

static int32_t sample(void) {
    if (row->candidate_count == 0)
        return fail(SEALHOST_ERROR_EMPTY, "step: no logit is a number");
    uint32_t second = row->candidate_count > 1 ? 1 : 0;
    if ((row->history_length - row->prompt_length) % 2 == 0)
        return answer(SEALHOST_TOKEN, candidates[second].id);
    if (second)
        candidates[0].logit = -__builtin_inff();
    return answer(SEALHOST_EDITED, 0);
}
