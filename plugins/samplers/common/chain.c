#include "chain.h"

#include "prefix.h"
#include "sealhost_guest.h"

#define FIRST_PREFIX 512u /* candidates: above 95 % of the mass of most models' answers */
#define GROWTH 16u

/* The token, given that `end` is the last candidate of the prefix that top-k keeps. If the row is `open`, top-k keeps
 * more behind it; `mass` is that of all. NO_TOKEN: the prefix does not decide. */
static uint32_t decide(struct prefix *prefix, const struct chain *chain, struct place end, double mass, int open) {
    if (chain->top_p < 1) {
        struct place cut = prefix_by_mass(prefix, end, chain->top_p * mass, 0);
        if (!cut.found && open)
            return NO_TOKEN;
        end = cut.found ? cut : end;
        open = 0;
    }
    if (chain->min_p > 0) {
        struct place cut = prefix_by_weight(prefix, end, chain->min_p);
        if (!cut.found && open)
            return NO_TOKEN;
        end = cut.found ? cut : end;
        open = 0;
    }
    struct place drawn = prefix_by_mass(prefix, end, chain->u * (open ? mass : end.mass), 1);
    if (!drawn.found && open)
        return NO_TOKEN;
    return prefix_id(prefix, drawn.found ? drawn : end); /* u may round up to the whole mass: then the last one */
}

/* The rest's mass is first bounded. Only when the bounds give different tokens is it summed exactly. */
static uint32_t decide_open(struct prefix *prefix, const struct row *row, const struct chain *chain, struct place end) {
    double error = rough_error(chain->scale);
    if (error > ROUGH_USABLE)
        return decide(prefix, chain, end, row_mass(row, chain->scale), 1);
    double rest = row_rough_mass(row, chain->scale, prefix->least);
    uint32_t low = decide(prefix, chain, end, end.mass + rest * (1 - error), 1);
    uint32_t high = decide(prefix, chain, end, end.mass + rest * (1 + error), 1);
    return low == high ? low : decide(prefix, chain, end, row_mass(row, chain->scale), 1);
}

uint32_t chain_draw(const struct row *row, const struct chain *chain) {
    int top_k_on = chain->top_k != UINT32_MAX;
    uint32_t wanted = top_k_on && chain->top_k > FIRST_PREFIX / 2 ? 2 * chain->top_k : FIRST_PREFIX;
    for (;; wanted = wanted < row->count ? wanted * GROWTH : UINT32_MAX) {
        struct prefix prefix;
        prefix_take(&prefix, row, chain->scale, wanted);
        if (prefix.count == 0 || (top_k_on && chain->top_k > prefix.count && !prefix.complete))
            continue; /* the guess was too high */
        struct place end = prefix_by_count(&prefix, chain->top_k);
        uint32_t token = top_k_on || prefix.complete ? decide(&prefix, chain, end, end.mass, 0)
                                                     : decide_open(&prefix, row, chain, end);
        if (token != NO_TOKEN)
            return token;
    }
}

int32_t chain_check(const struct sealhost_row *row) {
    if (!(row->temperature >= 0) || !(row->repetition_penalty > 0) || !(row->top_p >= 0) || !(row->min_p <= 1))
        return fail(SEALHOST_ERROR_INPUT, "step: temperature, repetition_penalty, top_p or min_p is out of range");
    return SEALHOST_OK;
}

uint32_t chain_token(const struct row *row, const struct sealhost_row *parameters, struct candidate best) {
    if (parameters->temperature == 0)
        return best.id;
    int top_k_off = parameters->top_k <= 0 || (uint32_t)parameters->top_k >= parameters->vocab_size;
    struct chain chain = {
        .scale = {best.logit, 1.0 / parameters->temperature},
        .top_k = top_k_off ? UINT32_MAX : (uint32_t)parameters->top_k,
        .top_p = parameters->top_p,
        .min_p = parameters->min_p,
        .u = (double)(parameters->random[0] >> 11) * 0x1p-53,
    };
    return chain_draw(row, &chain);
}
