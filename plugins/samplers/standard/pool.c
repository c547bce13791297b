#include "pool.h"

#include "adjust.h"
#include "chain.h"
#include "exponential.h"
#include "moments.h"
#include "natural.h"
#include "prefix.h"
#include "sigma_bounds.h"
#include "sort.h"
#include "typical.h"

#define FIRST_GATHERED 512u
#define GROWTH 16u

/* An open pool draws through a prefix and has no list; a closed one has a list and needs no prefix. */
#define kept scratch_candidates
#define spare scratch_spare
#define weights scratch_weights /* of `kept` */

static struct scale scale_of(const struct pool *pool) {
    return (struct scale){pool->max, pool->beta};
}

static void weigh(struct pool *pool) {
    weights_of(kept, pool->count, scale_of(pool), weights);
}

static void sort_kept(struct pool *pool) {
    sort_candidates(kept, spare, pool->count);
    pool->max = kept[0].logit;
}

/* Closes the pool over what was gathered. */
static void close_over(struct pool *pool) {
    pool->list = kept;
    pool->open = 0;
    sort_kept(pool);
}

/* Closes the pool over everything with a logit of at least `least`. */
static void close_at(struct pool *pool, float least) {
    pool->count = row_gather(pool->row, least, kept);
    close_over(pool);
}

/* The same for a float64 bound: a little more than asked for, exact ends are found in the list. */
static void close_near(struct pool *pool, double least) {
    double magnitude = least < 0 ? -least : least;
    close_at(pool, (float)(least - magnitude * 1e-6 - 1e-30));
}

void pool_begin(struct pool *pool, struct row *row, double max) {
    *pool = (struct pool){
        .row = row, .open = 1, .floor = MINUS_INFINITY, .ceiling = __builtin_inf(), .max = max, .beta = 1};
    if (pool->max < __builtin_inf())
        return;
    close_at(pool, __builtin_inff());
    for (uint32_t i = 0; i < pool->count; i++)
        kept[i].logit = 0;
    pool->max = 0;
}

/* How many of the list lie above the floor, at least one. */
static uint32_t above_floor(const struct pool *pool) {
    uint32_t count = 1;
    while (count < pool->count && kept[count].logit >= pool->floor)
        count++;
    return count;
}

static void cut_at_floor(struct pool *pool) {
    uint32_t count = above_floor(pool), above = 0;
    if (pool->sigmas > 0 && count > 1 && kept[count - 1].logit < pool->safe) {
        pool->floor = pool->max - pool->sigmas * row_sigma(pool->row, pool->max);
        count = above_floor(pool);
    }
    pool->sigmas = 0;
    while (kept[above].logit > pool->ceiling)
        above++;
    pool->count = count - above;
    __builtin_memmove(kept, kept + above, pool->count * sizeof *kept);
    pool->max = kept[0].logit;
    pool->floor = MINUS_INFINITY;
    pool->ceiling = __builtin_inf();
    pool->has_window = 0;
}

/* ---- temperature ------------------------------------------------------------------------------------------------- */

#define LEAST_BETA 1e-300 /* of temperatures above float64's range: all candidates weigh the same */

void pool_temperature(struct pool *pool, double temperature) {
    double beta = 1 / temperature;
    if (temperature > 0)
        pool->beta = beta > LEAST_BETA ? beta : LEAST_BETA;
    else
        pool_top_k(pool, 1);
}

static double spread_of(double mass, double weighted, uint32_t count) {
    double spread = count < 2 ? 0 : (natural_logarithm(mass) + weighted / mass) / natural_logarithm(count);
    return spread > 0 ? spread < 1 ? spread : 1 : 0;
}

static double temperature_at(const struct dynamic *dynamic, double spread) {
    double power = dynamic->exponent > 0 ? 0 : 1;
    if (power == 0 && spread > 1e-300)
        power = wasm_f64x2_extract_lane(
            exponential(wasm_f64x2_splat(dynamic->exponent * natural_logarithm(spread))), 0);
    return dynamic->least + (dynamic->most - dynamic->least) * power;
}

static void set_dynamic(struct pool *pool, const struct dynamic *dynamic) {
    struct moments sums;
    if (pool->open) {
        sums = row_moments(pool->row, scale_of(pool));
    } else {
        weigh(pool);
        sums = list_moments(kept, weights, pool->count, scale_of(pool));
    }
    pool_temperature(pool, temperature_at(dynamic, spread_of(sums.mass, -sums.weighted, sums.count)));
}

/* Bounds of what set_dynamic() would set, by the spectrum. Whether they are near enough to each other. */
static int bound_dynamic(struct pool *pool, const struct dynamic *dynamic) {
    if (!spectrum_take(&pool->spectrum, pool->row, pool->max, pool->beta))
        return 0;
    struct weighed sums = spectrum_weigh(&pool->spectrum, pool->beta);
    double low = sums.mass * (1 - sums.error), high = sums.mass * (1 + sums.error);
    double least = spread_of(low, (sums.weighted - sums.weighted_error) * low / high, pool->spectrum.count);
    double most = spread_of(high, (sums.weighted + sums.weighted_error) * high / low, pool->spectrum.count);
    pool->coolest = temperature_at(dynamic, least) * (1 - 1e-12);
    pool->hottest = temperature_at(dynamic, most) * (1 + 1e-12);
    return pool->coolest > 1e-6 && pool->hottest < pool->coolest * 1.001;
}

void pool_dynamic_temperature(struct pool *pool, struct dynamic dynamic) {
    pool_settle(pool);
    if (pool->open && bound_dynamic(pool, &dynamic)) {
        pool->dynamic = dynamic;
        pool->is_pending = 1;
    } else {
        set_dynamic(pool, &dynamic);
    }
}

/* Whoever needs to know the temperature exactly learns it here, before anything changes. */
static void resolve(struct pool *pool) {
    if (pool->is_pending) {
        pool->is_pending = 0;
        set_dynamic(pool, &pool->dynamic);
    }
}

/* ---- filters ----------------------------------------------------------------------------------------------------- */

void pool_settle(struct pool *pool) {
    resolve(pool);
    if (pool->floor == MINUS_INFINITY)
        return;
    if (pool->open)
        close_near(pool, pool->floor);
    cut_at_floor(pool);
}

void pool_refresh(struct pool *pool) {
    if (pool->open)
        pool->max = row_best(pool->row).logit;
    else
        sort_kept(pool);
}

static double mass_of_kept(struct pool *pool) {
    double mass = 0;
    weigh(pool);
    for (uint32_t i = 0; i < pool->count; i++)
        mass += weights[i];
    return mass;
}

void pool_top_k(struct pool *pool, uint32_t k) {
    resolve(pool);
    if (pool->has_window)
        pool_settle(pool);
    for (uint32_t wanted = k; pool->open; wanted = wanted < pool->row->count / GROWTH ? wanted * GROWTH : UINT32_MAX) {
        float least = prefix_threshold(pool->row, wanted);
        pool->count = row_gather(pool->row, least, kept);
        if (pool->count >= k || least == (float)MINUS_INFINITY)
            close_over(pool);
    }
    pool->count = k < pool->count ? k : pool->count;
    cut_at_floor(pool);
}

/* Cuts the list behind the first candidate with which the mass reaches `target`. Whether it does. */
static int cut_at_mass(struct pool *pool, double target) {
    double sum = 0;
    weigh(pool);
    for (uint32_t i = 0; i < pool->count; i++) {
        sum += weights[i];
        if (sum >= target) {
            pool->count = i + 1;
            return 1;
        }
    }
    return 0;
}

/* Leaves the pool open above a floor that the spectrum tells. */
static int open_top_p(struct pool *pool, double p) {
    if (!spectrum_take(&pool->spectrum, pool->row, pool->max, pool->beta))
        return 0;
    struct weighed sums = spectrum_weigh(&pool->spectrum, pool->beta);
    struct prefix prefix;
    prefix_of_spectrum(&prefix, pool->row, scale_of(pool), &pool->spectrum);
    struct place end = prefix_by_count(&prefix, UINT32_MAX);
    double target = p * sums.mass, slack = 2.1 * sums.error;
    struct place low = prefix_by_mass(&prefix, end, target * (1 - slack), 0);
    struct place high = prefix_by_mass(&prefix, end, target * (1 + slack), 0);
    if (!low.found || !high.found || low.bucket != high.bucket || low.index != high.index)
        return 0;
    double floor = prefix_last_logit(&prefix, low);
    if (floor != floor)
        return 0;
    pool->floor = floor;
    pool->has_window = 1;
    return 1;
}

void pool_top_p(struct pool *pool, double p) {
    pool_settle(pool);
    if (!pool->open) {
        cut_at_mass(pool, p * mass_of_kept(pool));
        return;
    }
    if (open_top_p(pool, p))
        return;
    double target = p * row_mass(pool->row, scale_of(pool));
    for (uint32_t wanted = FIRST_GATHERED;; wanted = wanted < pool->row->count ? wanted * GROWTH : wanted) {
        float least = wanted < pool->row->count ? prefix_threshold(pool->row, wanted) : (float)MINUS_INFINITY;
        if (least > pool->max)
            continue;
        close_at(pool, least);
        if (cut_at_mass(pool, target) || least == (float)MINUS_INFINITY)
            return;
    }
}

/* How many of the list, from its beginning, have at least `weight`. */
static uint32_t reaching(struct pool *pool, double weight) {
    uint32_t count = 0;
    weigh(pool);
    while (count < pool->count && weights[count] >= weight)
        count++;
    return count;
}

void pool_min_p(struct pool *pool, double p) {
    pool_settle(pool);
    if (pool->open)
        close_near(pool, pool->max + natural_logarithm(p) / pool->beta);
    pool->count = reaching(pool, p); /* the likeliest one weighs 1 */
}

void pool_top_n_sigma(struct pool *pool, double n) {
    pool_settle(pool);
    if (!pool->open) {
        pool->floor = pool->max - n * list_sigma(kept, pool->count, pool->max);
        cut_at_floor(pool);
        return;
    }
    struct sigma_bounds sigma = row_sigma_bounds(pool->row, pool->max);
    pool->sigmas = n;
    pool->safe = pool->max - n * sigma.least;
    pool->floor = pool->max - n * sigma.most;
}

/* The list is what reaches `least`, unsorted. Whether it decides; then it is what is kept. */
static int keep_typical(struct pool *pool, struct typical *typical, double least) {
    typical->least = least;
    weigh(pool);
    uint32_t count = pool->count ? typical_keep(kept, weights, pool->count, typical) : 0;
    if (!count)
        return 0;
    pool->count = count;
    close_over(pool);
    return 1;
}

/* Leaves the pool open, between two bounds. */
static int open_window(struct pool *pool, double p) {
    if (!spectrum_take(&pool->spectrum, pool->row, pool->max, pool->beta))
        return 0;
    struct weighed sums = spectrum_weigh(&pool->spectrum, pool->beta);
    double floor, ceiling;
    if (!typical_window(&pool->spectrum, pool->row, &sums, pool->beta, p, &floor, &ceiling))
        return 0;
    pool->floor = floor;
    pool->ceiling = ceiling;
    pool->has_window = 1;
    return 1;
}

void pool_typical(struct pool *pool, double p) {
    pool_settle(pool);
    struct typical typical = {.scale = scale_of(pool), .p = p};
    if (!pool->open) {
        weigh(pool);
        typical.sums = list_moments(kept, weights, pool->count, scale_of(pool));
        keep_typical(pool, &typical, MINUS_INFINITY);
        return;
    }
    if (open_window(pool, p))
        return;
    typical.sums = row_moments(pool->row, scale_of(pool));
    for (uint32_t wanted = FIRST_GATHERED; pool->open; wanted = wanted < pool->row->count ? wanted * GROWTH : wanted) {
        float least = wanted < pool->row->count ? prefix_threshold(pool->row, wanted) : (float)MINUS_INFINITY;
        pool->count = row_gather(pool->row, least, kept);
        keep_typical(pool, &typical, least);
    }
}

/* What is known of an open pool's mass, the more the longer it takes. */
enum precision { ROUGHLY, CLOSELY, EXACTLY };

struct interval {
    double low, high;
};

static struct interval row_interval(struct pool *pool, enum precision precision) {
    struct scale scale = scale_of(pool);
    double mass = 0, error = 2;
    if (precision == EXACTLY) {
        mass = row_mass(pool->row, scale);
        error = 0;
    } else if (precision == ROUGHLY && rough_error(scale) < ROUGH_USABLE) {
        mass = row_rough_mass(pool->row, scale, __builtin_inff());
        error = rough_error(scale);
    } else if (precision == CLOSELY && spectrum_take(&pool->spectrum, pool->row, pool->max, pool->beta)) {
        struct weighed sums = spectrum_weigh(&pool->spectrum, pool->beta);
        mass = sums.mass;
        error = sums.error;
    }
    /* the likeliest one weighs 1, and nobody more */
    return error < 1 ? (struct interval){mass * (1 - error), mass * (1 + error)}
                     : (struct interval){1, pool->row->count};
}

/* How many of an open pool have at least `threshold` of its mass; they become the list. */
static uint32_t reaching_share(struct pool *pool, double threshold) {
    for (enum precision precision = ROUGHLY;; precision++) {
        struct interval mass = row_interval(pool, precision);
        double low = threshold * mass.low, high = threshold * mass.high;
        if (low > 1)
            return 0;
        if (high > 1)
            continue;
        close_near(pool, low > 1e-300 ? pool->max + natural_logarithm(low) / pool->beta : MINUS_INFINITY);
        pool->open = 1;
        uint32_t above = reaching(pool, low);
        if (above == reaching(pool, high))
            return above;
    }
}

/* Of an open pool those above the threshold but the last leave the row, which stays open: what is left may be nearly all. */
static void xtc_open(struct pool *pool, double threshold) {
    uint32_t above = reaching_share(pool, threshold);
    for (uint32_t i = 0; i + 1 < above; i++)
        adjust_entry(pool->row, kept[i].id)->value = MINUS_INFINITY;
    if (above > 1)
        pool->max = row_best(pool->row).logit;
}

void pool_xtc(struct pool *pool, double threshold) {
    pool_settle(pool);
    if (pool->open) {
        xtc_open(pool, threshold);
        return;
    }
    uint32_t above = reaching(pool, threshold * mass_of_kept(pool));
    if (above < 2)
        return;
    pool->count -= above - 1;
    __builtin_memmove(kept, kept + above - 1, pool->count * sizeof *kept);
    pool->max = kept[0].logit;
}

/* How many of the list lie no further below the largest than `depth`, in nats; at least one. */
static uint32_t within(struct pool *pool, double depth) {
    uint32_t count = 1;
    while (count < pool->count && (pool->max - kept[count].logit) * pool->beta <= depth)
        count++;
    return count;
}

void pool_surprise(struct pool *pool, double mu) {
    pool_settle(pool);
    double bits = mu * LN2_OF_BITS;
    if (!pool->open)
        pool->count = within(pool, bits - natural_logarithm(mass_of_kept(pool)));
    for (enum precision precision = ROUGHLY; pool->open; precision++) {
        struct interval mass = row_interval(pool, precision);
        double least = bits - natural_logarithm(mass.high), most = bits - natural_logarithm(mass.low);
        close_near(pool, pool->max - (most > 0 ? most : 0) / pool->beta);
        uint32_t count = within(pool, least);
        pool->open = count != within(pool, most);
        pool->count = count;
    }
}

static uint32_t draw_open(struct pool *pool, double u) {
    if (pool->is_pending || pool->has_window) {
        struct window window = {pool->floor, pool->ceiling, pool->beta, pool->beta};
        if (pool->is_pending) {
            window.least_inverse = 1 / pool->hottest;
            window.most_inverse = 1 / pool->coolest;
        }
        uint32_t token = chain_draw_between(pool->row, &pool->spectrum, &window, u);
        if (token != NO_TOKEN)
            return token;
    }
    pool_settle(pool);
    struct chain chain = {scale_of(pool), UINT32_MAX, 1, 0, u};
    return pool->open ? chain_draw(pool->row, &chain) : NO_TOKEN;
}

uint32_t pool_draw(struct pool *pool, double u) {
    uint32_t token = pool->open ? draw_open(pool, u) : NO_TOKEN;
    if (token != NO_TOKEN)
        return token;
    double target = u * mass_of_kept(pool), sum = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        sum += weights[i];
        if (sum > target)
            return kept[i].id;
    }
    return kept[pool->count - 1].id; /* u may round up to the whole mass: then the last one */
}

double pool_surprise_of(struct pool *pool, uint32_t id) {
    double mass = mass_of_kept(pool);
    uint32_t i = 0;
    while (i + 1 < pool->count && kept[i].id != id)
        i++;
    return (natural_logarithm(mass) + (pool->max - kept[i].logit) * pool->beta) / LN2_OF_BITS;
}
