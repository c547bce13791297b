#include "chain.h"

#include "prefix.h"
#include "sealhost_guest.h"

#define FIRST_PREFIX 512u /* candidates: above 95 % of the mass of most models' answers */
#define GROWTH 16u
#define FEW 16u    /* times as many are worth sorting */
#define SAMPLE 256u
#define MARGIN 1.5 /* of a sample's mass */
#define DEEP 1024u /* a top-k above this begins with the whole row */
#define LEAST_MASS 1e-250 /* of a window that lies below the maximum; of less, exponentials are rounded to 0 */
#define USABLE 0.05 /* error of a spectrum's masses up to which they are bounds: bins too wide for a temperature have others */

/* The token, given that `end` is the last candidate of the prefix that top-k keeps. If the row is `open`, top-k keeps
 * more behind it; `mass` is that of all. NO_TOKEN: the prefix does not decide. `factor`: of the masses to be reached. */
static uint32_t decide(
    struct prefix *prefix, const struct chain *chain, struct place end, double mass, int open, double factor) {
    if (chain->top_p < 1) {
        struct place cut = prefix_by_mass(prefix, end, factor * chain->top_p * mass, 0);
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
    struct place drawn = prefix_by_mass(prefix, end, factor * chain->u * (open ? mass : end.mass), 1);
    if (!drawn.found && open)
        return NO_TOKEN;
    return prefix_id(prefix, drawn.found ? drawn : end); /* u may round up to the whole mass: then the last one */
}

/* Whether it is worth bounding the rest's mass within `error`: by a sample, the prefix holds what is asked for, and whoever
 * is drawn there weighs more than the bounds are apart. */
static int may_decide(
    struct prefix *prefix, const struct row *row, const struct chain *chain, struct place end, double error) {
    double mass = 0, share = chain->top_p < 1 ? chain->top_p : chain->u;
    uint32_t step = row->count / SAMPLE;
    if (chain->min_p > 0 || !step)
        return 1;
    for (uint32_t i = 0; i < SAMPLE; i++)
        mass += weight_of(row->logits[i * step + i * 7 % step], chain->scale);
    mass = mass * step > end.mass ? mass * step : end.mass;
    struct place drawn = prefix_by_mass(prefix, end, share * mass, 1);
    if (!drawn.found)
        return share * mass < MARGIN * end.mass;
    return 2 * error * share * (mass - end.mass) < prefix_weight(prefix, drawn);
}

/* The rest's mass is only bounded. NO_TOKEN: the bounds give different tokens. */
static uint32_t decide_roughly(
    struct prefix *prefix, const struct row *row, const struct chain *chain, struct place end) {
    double error = rough_error(chain->scale);
    if (error > ROUGH_USABLE || !may_decide(prefix, row, chain, end, error))
        return NO_TOKEN;
    double rest = row_rough_mass(row, chain->scale, prefix->least);
    uint32_t low = decide(prefix, chain, end, end.mass + rest * (1 - error), 1, 1);
    uint32_t high = decide(prefix, chain, end, end.mass + rest * (1 + error), 1, 1);
    return low == high ? low : NO_TOKEN;
}

/* By a prefix of about `wanted` candidates; `exactly`: whatever that takes. */
static uint32_t draw_from_prefix(const struct row *row, const struct chain *chain, uint32_t wanted, int exactly) {
    struct prefix prefix;
    int top_k_on = chain->top_k != UINT32_MAX;
    uint32_t sortable = FEW * (wanted > FIRST_PREFIX ? wanted : FIRST_PREFIX);
    prefix_take(&prefix, row, chain->scale, wanted, exactly ? UINT32_MAX : sortable);
    if (prefix.count == 0 || (top_k_on && chain->top_k > prefix.count && !prefix.complete))
        return NO_TOKEN; /* the guess was too high, or too many are alike */
    struct place end = prefix_by_count(&prefix, chain->top_k);
    if (top_k_on || prefix.complete)
        return decide(&prefix, chain, end, end.mass, 0, 1);
    return exactly ? decide(&prefix, chain, end, row_mass(row, chain->scale), 1, 1)
                   : decide_roughly(&prefix, row, chain, end);
}

/* Of masses that are wrong by a factor of 1 + error at most, what comes first where the target is `side` (-1, 1) as much
 * lower or higher. */
static uint32_t decide_nearly(struct prefix *prefix, const struct chain *chain, double error, int side) {
    if (error > USABLE || (chain->top_k != UINT32_MAX && chain->top_k > prefix->count && !prefix->complete))
        return NO_TOKEN;
    struct place end = prefix_by_count(prefix, chain->top_k);
    if (end.mass < LEAST_MASS)
        return NO_TOKEN;
    int open = !prefix->complete && chain->top_k == UINT32_MAX;
    return decide(prefix, chain, end, end.mass, open, 1 + side * 2.1 * error);
}

/* What is right lies between what comes first at both bounds. */
static uint32_t draw_from_spectrum(const struct row *row, const struct chain *chain) {
    struct spectrum spectrum;
    struct prefix prefix;
    if (!(chain->scale.max < __builtin_inf()) || !spectrum_take(&spectrum, row, chain->scale.max, chain->scale.inverse))
        return NO_TOKEN;
    struct weighed sums = spectrum_weigh(&spectrum, chain->scale.inverse);
    prefix_of_spectrum(&prefix, row, chain->scale, &spectrum);
    uint32_t low = decide_nearly(&prefix, chain, sums.error, -1), high = decide_nearly(&prefix, chain, sums.error, 1);
    return low == high ? low : NO_TOKEN;
}

/* The masses of a window at a temperature. Returns their error. */
static double weigh_window(
    struct prefix *prefix, const struct row *row, const struct spectrum *spectrum, const struct window *window,
    double inverse) {
    struct weighed sums = spectrum_weigh(spectrum, inverse);
    prefix_of_spectrum(prefix, row, (struct scale){spectrum->max, inverse}, spectrum);
    if (window->floor > MINUS_INFINITY || window->ceiling < __builtin_inf())
        prefix_restrict(prefix, window->floor, window->ceiling);
    return sums.error;
}

uint32_t chain_draw_between(
    const struct row *row, const struct spectrum *spectrum, const struct window *window, double u) {
    struct chain chain = {{spectrum->max, 0}, UINT32_MAX, 1, 0, u};
    struct prefix prefix;
    /* the lower the temperature, the sooner the sums come to their share */
    double error = weigh_window(&prefix, row, spectrum, window, window->most_inverse);
    uint32_t low = prefix.count ? decide_nearly(&prefix, &chain, error, -1) : NO_TOKEN;
    if (low == NO_TOKEN)
        return NO_TOKEN;
    if (window->least_inverse < window->most_inverse)
        error = weigh_window(&prefix, row, spectrum, window, window->least_inverse);
    return low == decide_nearly(&prefix, &chain, error, 1) ? low : NO_TOKEN;
}

uint32_t chain_draw(const struct row *row, const struct chain *chain) {
    int is_deep = chain->top_k != UINT32_MAX && chain->top_k > DEEP;
    uint32_t wanted = is_deep || chain->top_k == UINT32_MAX ? FIRST_PREFIX : chain->top_k;
    uint32_t token = is_deep ? NO_TOKEN : draw_from_prefix(row, chain, wanted, 0);
    if (token == NO_TOKEN)
        token = draw_from_spectrum(row, chain);
    for (; token == NO_TOKEN; wanted = wanted < row->count ? wanted * GROWTH : UINT32_MAX)
        token = draw_from_prefix(row, chain, wanted, 1);
    return token;
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
