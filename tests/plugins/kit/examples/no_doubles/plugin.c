/* Takes an id that stands twice in a row back, and goes on with the next higher one. */
#define SEALHOST_MAX_BACKTRACK 4
#include "sealhost_sampler.h"

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK;
}

static int32_t sample(void) {
    uint32_t length = row->history_length;
    if (row->backtrack_room == 0 || length - row->prompt_length < 2 || history[length - 1] != history[length - 2])
        return answer(SEALHOST_PASS, 0);
    log_text("took back ");
    log_number(history[length - 1]);
    log_text("\n");
    answer_words[0] = (history[length - 1] + 1) % row->vocab_size;
    return backtrack(1, 1);
}
