/* Four choices in one instance: each starts from what the first made of the prompt, and none says what another says at
 * the same place. */
#define SEALHOST_ROWS 4u
#define SEALHOST_SLOT_STATE
#include "sealhost_sampler.h"

static struct {
    uint32_t sum;   /* of the prompt: made once, copied when the slot forks */
    uint32_t place; /* where it spoke last, counted from 1 */
    uint32_t said;
} slots[SEALHOST_ROWS];

static void began(uint32_t slot) {
    clear_bytes(&slots[slot], sizeof slots[slot]);
    for (uint32_t i = 0; i < row->prompt_length; i++)
        slots[slot].sum += history[i];
    log_text("summed\n");
}

static void forked(uint32_t slot, uint32_t parent) {
    slots[slot] = slots[parent];
}

static void ended(uint32_t slot) {
    slots[slot].place = 0;
}

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    clear_bytes(slots, sizeof slots);
    return SEALHOST_OK;
}

static int said_by_another(uint32_t id, uint32_t place) {
    for (uint32_t slot = 0; slot < SEALHOST_ROWS; slot++)
        if (slot != row->slot && slots[slot].place == place && slots[slot].said == id)
            return 1;
    return 0;
}

static int32_t sample(void) {
    uint32_t place = row->history_length - row->prompt_length + 1, best = row->vocab_size;
    for (uint32_t i = 0; i < row->vocab_size; i++) {
        uint32_t id = (i + slots[row->slot].sum) % row->vocab_size; /* of equals the first one after the sum */
        if (logits[id] > -__builtin_inff() && (best == row->vocab_size || logits[id] > logits[best]) &&
            !said_by_another(id, place))
            best = id;
    }
    if (best == row->vocab_size)
        return fail(SEALHOST_ERROR_EMPTY, "step: nothing is left that nobody says");
    slots[row->slot].place = place;
    slots[row->slot].said = best;
    return answer(SEALHOST_TOKEN, best);
}
