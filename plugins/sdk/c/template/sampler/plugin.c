/* @NAME@: forbids the last token, so that none comes twice in a row, and leaves the drawing to the host.
 *
 * Change `sample`. What it sees: `row` (parameters, lengths, randomness), logits[row->vocab_size],
 * history[row->history_length], bias[row->bias_count], config[row->config_length].
 */
#include "sealhost_sampler.h"

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK; /* tables that need time are made here: the host snapshots the guest after it */
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK; /* forget what `sample` remembered; this guest remembers nothing */
}

static int32_t sample(void) {
    if (row->history_length == row->prompt_length)
        return answer(SEALHOST_PASS, 0); /* nothing is generated yet: the host draws from the logits as they are */
    for (uint32_t id = 0; id < row->vocab_size; id++)
        if (logits[id] != logits[id])
            logits[id] = -__builtin_inff(); /* NaN counts as -inf (clause 2.6), and EDITED must hold none */
    uint32_t last = history[row->history_length - 1];
    if (last < row->vocab_size)
        logits[last] = -__builtin_inff();
    return answer(SEALHOST_EDITED, 0); /* the host draws from what is left, with the request's parameters */
}
