/* The exports of the standard sampler: sealhost.h's sampler, README.md clauses 2.x. */
#define SEALHOST_ERROR_AREA
#include "adjust.h"
#include "chain.h"
#include "configured.h"
#include "limits.h"
#include "sealhost_guest.h"
#include "words.h"

static float logits[MAX_ROWS][VOCAB_CAPACITY] __attribute__((aligned(4096)));
static struct sealhost_row rows[MAX_ROWS] __attribute__((aligned(8)));
static struct sealhost_result results[MAX_ROWS] __attribute__((aligned(8)));
static uint32_t history[MAX_ROWS][HISTORY_CAPACITY];
static struct sealhost_bias bias[BIAS_CAPACITY];
static uint8_t config[CONFIG_CAPACITY];

static struct settings settings; /* of the request, read with its first row */
static int settings_are_read;
static struct mirostat mirostats[MAX_ROWS];

_Static_assert(VOCAB_CAPACITY * sizeof(float) % 4096 == 0, "a row of logits is whole pages");

SEALHOST_EXPORT(sealhost_sampler_v1) int32_t sealhost_sampler_v1(void) {
    return SEALHOST_ABI_MINOR;
}

/* Constant, so that it lies with the other data and no instance writes a page for it. */
#define OFFSET(area) ((uint32_t)(uintptr_t)(area))
static const struct sealhost_sampler_layout published = {
    .size = sizeof(struct sealhost_sampler_layout),
    .minor = SEALHOST_ABI_MINOR,
    .max_rows = MAX_ROWS,
    .vocab_capacity = VOCAB_CAPACITY,
    .logits = OFFSET(logits),
    .logits_stride = sizeof logits[0],
    .rows = OFFSET(rows),
    .results = OFFSET(results),
    .history = OFFSET(history),
    .history_capacity = HISTORY_CAPACITY,
    .bias = OFFSET(bias),
    .bias_capacity = BIAS_CAPACITY,
    .config = OFFSET(config),
    .config_capacity = CONFIG_CAPACITY,
    .error = OFFSET(sealhost_error_area),
    .error_capacity = SEALHOST_ERROR_BYTES,
};

SEALHOST_EXPORT(layout) int32_t layout(void) {
    return (int32_t)sealhost_offset(&published);
}

SEALHOST_EXPORT(vocabulary) int32_t vocabulary(uint32_t size) {
    return words_place(size);
}

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

/* Only mirostat carries anything from one step to the next, and begins anew with NEW or FORK. */
SEALHOST_EXPORT(reset) int32_t reset(void) {
    settings_are_read = 0;
    return SEALHOST_OK;
}

static int32_t check(const struct sealhost_row *row) {
    if (row->size < sizeof *row)
        return fail(SEALHOST_ERROR_INPUT, "step: a row is smaller than this guest's struct sealhost_row");
    if (row->slot >= MAX_ROWS)
        return fail(SEALHOST_ERROR_INPUT, "step: a row of a slot that the layout does not have");
    if (row->vocab_size == 0 || row->vocab_size > VOCAB_CAPACITY)
        return fail(SEALHOST_ERROR_CAPACITY, "step: vocab_size is 0 or above the capacity");
    if (row->history_length > HISTORY_CAPACITY || row->bias_count > BIAS_CAPACITY)
        return fail(SEALHOST_ERROR_CAPACITY, "step: the history or the bias list is above its capacity");
    if (row->config_length > CONFIG_CAPACITY)
        return fail(SEALHOST_ERROR_CAPACITY, "step: the configuration is above its capacity");
    if (row->prompt_length > row->history_length)
        return fail(SEALHOST_ERROR_INPUT, "step: prompt_length is above history_length");
    return chain_check(row);
}

/* Clause 2.7's chain; the row is adjusted. */
static int32_t draw_standard(struct row *row, const struct sealhost_row *parameters, uint32_t *token) {
    struct candidate best = row_best(row);
    if (best.logit == MINUS_INFINITY)
        return fail(SEALHOST_ERROR_EMPTY, "step: every logit is -inf or not a number: no token can be drawn");
    *token = chain_token(row, parameters, best);
    return SEALHOST_OK;
}

static int32_t sample(const struct sealhost_row *parameters, struct sealhost_result *result) {
    struct row row = {.logits = logits[parameters->slot], .count = parameters->vocab_size};
    struct request request = {parameters, history[parameters->slot], bias};
    int32_t status = settings.given ? adjust_begin(&row, &request) : adjust(&row, &request);
    uint32_t token = 0;
    if (!status)
        status = settings.given
                     ? configured_draw(&row, &request, &settings, &mirostats[parameters->slot], &token)
                     : draw_standard(&row, parameters, &token);
    if (!status)
        *result = (struct sealhost_result){sizeof *result, SEALHOST_TOKEN, token, 0};
    adjust_undo(&row);
    return status;
}

/* What a row says beside what it wants. */
static int32_t listen(const struct sealhost_row *row) {
    if (!settings_are_read || row->flags & SEALHOST_ROW_NEW) {
        int32_t status = settings_read(&settings, config, row->config_length);
        if (status)
            return status;
        settings_are_read = 1;
    }
    struct request request = {row, history[row->slot], bias};
    struct mirostat *state = &mirostats[row->slot];
    if (row->flags & SEALHOST_ROW_NEW)
        mirostat_begin(state, &settings);
    else if (row->flags & SEALHOST_ROW_FORK)
        *state = mirostats[row->parent < MAX_ROWS ? row->parent : 0];
    else
        mirostat_tell(state, &request);
    return SEALHOST_OK;
}

SEALHOST_EXPORT(step) int32_t step(uint32_t count) {
    if (count > MAX_ROWS)
        return fail(SEALHOST_ERROR_INPUT, "step: more rows than the layout has");
    for (uint32_t i = 0; i < count; i++) {
        int32_t status = check(&rows[i]);
        if (!status)
            status = listen(&rows[i]);
        if (!status && rows[i].flags & SEALHOST_ROW_SAMPLE)
            status = sample(&rows[i], &results[i]);
        if (status)
            return status;
    }
    return SEALHOST_OK;
}
