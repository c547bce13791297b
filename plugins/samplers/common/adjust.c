#include "adjust.h"

#include "limits.h"
#include "sealhost_guest.h"

static struct adjusted adjusted[VOCAB_CAPACITY];
static uint32_t place_of[VOCAB_CAPACITY]; /* index in `adjusted` + 1; 0: not in it */

/* Takes an id out of the row, which it is in. */
static void take_out(struct row *row, uint32_t id) {
    float original = row->logits[id];
    row->logits[id] = (float)MINUS_INFINITY;
    row->is_known &= !(original >= row->rest.logit);
    adjusted[row->adjusted_count] = (struct adjusted){.value = original, .id = id, .original = original};
    place_of[id] = ++row->adjusted_count;
}

static inline struct adjusted *entry_of(struct row *row, uint32_t id) {
    if (!place_of[id])
        take_out(row, id);
    return &adjusted[place_of[id] - 1];
}

struct adjusted *adjust_entry(struct row *row, uint32_t id) {
    return id < row->count ? entry_of(row, id) : 0;
}

const struct adjusted *adjust_find(const struct row *row, uint32_t id) {
    return place_of[id] ? &row->adjusted[place_of[id] - 1] : 0;
}

static int32_t fail_id(const char *where, uint32_t id) {
    error_begin(where);
    error_text(": expected ids below vocab_size, got ");
    error_number(id);
    return SEALHOST_ERROR_INPUT;
}

static int32_t add_bias(struct row *row, const struct request *request) {
    for (uint32_t i = 0; i < request->parameters->bias_count; i++) {
        struct adjusted *entry = adjust_entry(row, request->bias[i].id);
        if (!entry)
            return fail_id("logit bias", request->bias[i].id);
        entry->value += request->bias[i].bias;
    }
    return SEALHOST_OK;
}

/* Marks the ids of the history from `first` on that a penalty looks at, and counts those that were generated. */
static int32_t count_ids(struct row *row, const uint32_t *history, uint32_t first, uint32_t end, uint32_t generated) {
    for (uint32_t i = first; i < end; i++) {
        if (history[i] >= row->count)
            return fail_id("history", history[i]);
        struct adjusted *entry = entry_of(row, history[i]);
        entry->seen = 1;
        entry->generated += generated;
    }
    return SEALHOST_OK;
}

static int32_t count_history(struct row *row, const struct request *request) {
    const struct sealhost_row *parameters = request->parameters;
    uint32_t prompt = parameters->prompt_length, length = parameters->history_length;
    int repetition = parameters->repetition_penalty != 1.0f;
    int generated = parameters->presence_penalty != 0.0f || parameters->frequency_penalty != 0.0f;
    int32_t status = repetition ? count_ids(row, request->history, 0, prompt, 0) : SEALHOST_OK;
    if (!status && (repetition || generated))
        status = count_ids(row, request->history, prompt, length, 1);
    return status;
}

double adjust_penalised(double value, const struct adjusted *entry, const struct sealhost_row *parameters) {
    double repetition = entry->seen ? parameters->repetition_penalty : 1;
    int above = value > 0; /* half of them, in no order: two operations cost less than a branch that is guessed wrong */
    value = value / (above ? repetition : 1) * (above ? 1 : repetition);
    if (entry->generated)
        value -= parameters->presence_penalty + (double)entry->generated * parameters->frequency_penalty;
    return value == value ? value : MINUS_INFINITY; /* NaN: -inf */
}

int32_t adjust_begin(struct row *row, const struct request *request) {
    row->adjusted = adjusted;
    row->adjusted_count = 0;
    int32_t status = add_bias(row, request);
    if (!status)
        status = count_history(row, request);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        if (row->adjusted[i].value != row->adjusted[i].value)
            row->adjusted[i].value = MINUS_INFINITY;
    return status;
}

int32_t adjust(struct row *row, const struct request *request) {
    int32_t status = adjust_begin(row, request);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        row->adjusted[i].value = adjust_penalised(row->adjusted[i].value, &row->adjusted[i], request->parameters);
    return status;
}

void adjust_undo(struct row *row) {
    for (uint32_t i = 0; i < row->adjusted_count; i++) {
        row->logits[row->adjusted[i].id] = row->adjusted[i].original;
        place_of[row->adjusted[i].id] = 0;
    }
    row->adjusted_count = 0;
}
