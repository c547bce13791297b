#include "configured.h"

#include "dry.h"
#include "pool.h"
#include "sealhost_guest.h"

void mirostat_begin(struct mirostat *state, const struct settings *settings) {
    *state = (struct mirostat){2 * settings->mirostat_tau, 0, NO_TOKEN};
}

void mirostat_tell(struct mirostat *state, const struct request *request) {
    const struct sealhost_row *row = request->parameters;
    uint32_t appended = row->appended <= row->history_length ? row->appended : 0;
    int stands = row->flags & SEALHOST_ROW_ACCEPT && !row->taken_back && appended &&
                 request->history[row->history_length - appended] == state->token;
    if (stands)
        state->mu = state->next;
    state->token = NO_TOKEN;
}

static double uniform(uint64_t random) {
    return (double)(random >> 11) * 0x1p-53;
}

struct penalties {
    const struct sealhost_row *parameters;
    const struct settings *settings;
    int is_dry;
};

/* Penalties see logits as the stages before left them: scaled by beta. */
static double penalised(double value, const struct adjusted *entry, const struct penalties *penalties, double beta) {
    double scaled = value * beta;
    double after = penalties->is_dry ? dry_penalised(scaled, entry, penalties->settings)
                                     : adjust_penalised(scaled, entry, penalties->parameters);
    return after == scaled ? value : after / beta; /* unscaling rounds: what was not penalised keeps its ties */
}

static void penalise_row(struct row *row, const struct penalties *penalties, double beta) {
    for (uint32_t i = 0; i < row->adjusted_count; i++) {
        struct adjusted *entry = &row->adjusted[i];
        if (penalties->is_dry ? entry->repeated : entry->seen)
            entry->value = penalised(entry->value, entry, penalties, beta);
    }
}

static void penalise_pool(struct pool *pool, const struct penalties *penalties) {
    pool_settle(pool);
    if (pool->open) {
        penalise_row(pool->row, penalties, pool->beta);
    } else {
        for (uint32_t i = 0; i < pool->count; i++) {
            const struct adjusted *entry = adjust_find(pool->row, pool->list[i].id);
            if (entry)
                pool->list[i].logit = penalised(pool->list[i].logit, entry, penalties, pool->beta);
        }
    }
    pool_refresh(pool);
}

/* llama.cpp's temp_ext: between temperature - range and temperature + range, by the normalised entropy. */
static void apply_temperature(struct pool *pool, double temperature, const struct settings *settings) {
    double range = settings->dynatemp_range;
    struct dynamic dynamic = {
        temperature > range ? temperature - range : 0, temperature + range, settings->dynatemp_exponent};
    if (range > 0)
        pool_dynamic_temperature(pool, dynamic);
    else
        pool_temperature(pool, temperature);
}

static void apply(struct pool *pool, uint8_t stage, const struct request *request, const struct settings *settings) {
    const struct sealhost_row *parameters = request->parameters;
    struct penalties penalties = {parameters, settings, stage == STAGE_DRY};
    int top_k_on = parameters->top_k > 0 && (uint32_t)parameters->top_k < parameters->vocab_size;
    if (stage == STAGE_PENALTIES || stage == STAGE_DRY)
        penalise_pool(pool, &penalties);
    else if (stage == STAGE_TEMPERATURE)
        apply_temperature(pool, parameters->temperature, settings);
    else if (settings->mirostat)
        return; /* mirostat cuts in its own way */
    else if (stage == STAGE_TOP_N_SIGMA && settings->top_n_sigma > 0)
        pool_top_n_sigma(pool, settings->top_n_sigma);
    else if (stage == STAGE_TOP_K && top_k_on)
        pool_top_k(pool, (uint32_t)parameters->top_k);
    else if (stage == STAGE_TYPICAL && settings->typical_p < 1)
        pool_typical(pool, settings->typical_p);
    else if (stage == STAGE_TOP_P && parameters->top_p < 1)
        pool_top_p(pool, parameters->top_p);
    else if (stage == STAGE_MIN_P && parameters->min_p > 0)
        pool_min_p(pool, parameters->min_p);
    else if (stage == STAGE_XTC && uniform(parameters->random[1]) < settings->xtc_probability)
        pool_xtc(pool, settings->xtc_threshold);
}

/* Temperature 0: the likeliest after the penalties, whatever else is asked for. */
static void penalise_for_greedy(struct row *row, const struct request *request, const struct settings *settings) {
    for (uint32_t i = 0; i < settings->order_count; i++) {
        struct penalties penalties = {request->parameters, settings, settings->order[i] == STAGE_DRY};
        if (settings->order[i] <= STAGE_DRY)
            penalise_row(row, &penalties, 1);
    }
}

static uint32_t draw(
    struct row *row, double max, const struct request *request, const struct settings *settings,
    struct mirostat *state) {
    struct pool pool;
    pool_begin(&pool, row, max);
    for (uint32_t i = 0; i < settings->order_count; i++)
        apply(&pool, settings->order[i], request, settings);
    double u = uniform(request->parameters->random[0]);
    if (!settings->mirostat)
        return pool_draw(&pool, u);
    pool_surprise(&pool, state->mu);
    uint32_t token = pool_draw(&pool, u);
    double error = pool_surprise_of(&pool, token) - settings->mirostat_tau;
    state->next = state->mu - settings->mirostat_eta * error;
    state->token = token;
    return token;
}

int32_t configured_draw(
    struct row *row, const struct request *request, const struct settings *settings, struct mirostat *state,
    uint32_t *token) {
    int32_t status = dry_find(row, request, settings);
    if (status)
        return status;
    int is_greedy = request->parameters->temperature == 0;
    if (is_greedy)
        penalise_for_greedy(row, request, settings);
    struct candidate best = row_best(row);
    if (best.logit == MINUS_INFINITY)
        return fail(SEALHOST_ERROR_EMPTY, "step: every logit is -inf or not a number: no token can be drawn");
    *token = is_greedy ? best.id : draw(row, best.logit, request, settings, state);
    return SEALHOST_OK;
}
