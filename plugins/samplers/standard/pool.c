#include "pool.h"

#include "adjust.h"
#include "chain.h"
#include "moments.h"
#include "natural.h"
#include "prefix.h"
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

static void sort_kept(struct pool *pool) {
    sort_candidates(kept, spare, pool->count);
    pool->max = kept[0].logit;
}

/* Closes the pool over everything with a logit of at least `least`. */
static void close_at(struct pool *pool, float least) {
    pool->count = row_gather(pool->row, least, kept);
    pool->list = kept;
    pool->open = 0;
    sort_kept(pool);
}

/* The same for a float64 bound: a little more than asked for, exact ends are found in the list. */
static void close_near(struct pool *pool, double least) {
    double magnitude = least < 0 ? -least : least;
    close_at(pool, (float)(least - magnitude * 1e-6 - 1e-30));
}

void pool_begin(struct pool *pool, struct row *row, double max) {
    *pool = (struct pool){.row = row, .open = 1, .floor = MINUS_INFINITY, .max = max, .beta = 1};
    if (pool->max < __builtin_inf())
        return;
    close_at(pool, __builtin_inff());
    for (uint32_t i = 0; i < pool->count; i++)
        kept[i].logit = 0;
    pool->max = 0;
}

static void cut_at_floor(struct pool *pool) {
    uint32_t count = 1;
    while (count < pool->count && kept[count].logit >= pool->floor)
        count++;
    pool->count = count;
    pool->floor = MINUS_INFINITY;
}

void pool_settle(struct pool *pool) {
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

static void weigh(struct pool *pool) {
    weights_of(kept, pool->count, scale_of(pool), weights);
}

static double mass_of_kept(struct pool *pool) {
    double mass = 0;
    weigh(pool);
    for (uint32_t i = 0; i < pool->count; i++)
        mass += weights[i];
    return mass;
}

void pool_top_k(struct pool *pool, uint32_t k) {
    for (uint32_t wanted = FIRST_GATHERED; pool->open; wanted = wanted < pool->row->count ? wanted * GROWTH : wanted) {
        float least = prefix_threshold(pool->row, wanted < 2 * (uint64_t)k ? 2 * k : wanted);
        if (wanted >= pool->row->count)
            least = (float)MINUS_INFINITY;
        if (least > (float)MINUS_INFINITY && row_gather(pool->row, least, kept) < k)
            continue; /* the guess was too high */
        close_at(pool, least);
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

void pool_top_p(struct pool *pool, double p) {
    pool_settle(pool);
    if (!pool->open) {
        cut_at_mass(pool, p * mass_of_kept(pool));
        return;
    }
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

void pool_min_p(struct pool *pool, double p) {
    pool_settle(pool);
    if (pool->open)
        close_near(pool, pool->max + natural_logarithm(p) / pool->beta);
    weigh(pool);
    uint32_t count = 1;
    while (count < pool->count && weights[count] >= p)
        count++;
    pool->count = count;
}

void pool_top_n_sigma(struct pool *pool, double n) {
    double sigma = pool->open ? row_sigma(pool->row, pool->max) : list_sigma(kept, pool->count, pool->max);
    pool->floor = pool->max - n * sigma;
    if (!pool->open)
        cut_at_floor(pool);
}

/* The list is what reaches `least`, unsorted. Whether it decides; then it is what is kept. */
static int keep_typical(struct pool *pool, struct typical *typical, double least) {
    typical->least = least;
    weigh(pool);
    uint32_t count = pool->count ? typical_keep(kept, weights, pool->count, typical) : 0;
    if (!count)
        return 0;
    pool->count = count;
    pool->list = kept;
    pool->open = 0;
    sort_kept(pool);
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
    typical.sums = row_moments(pool->row, scale_of(pool));
    for (uint32_t wanted = FIRST_GATHERED; pool->open; wanted = wanted < pool->row->count ? wanted * GROWTH : wanted) {
        float least = wanted < pool->row->count ? prefix_threshold(pool->row, wanted) : (float)MINUS_INFINITY;
        pool->count = row_gather(pool->row, least, kept);
        keep_typical(pool, &typical, least);
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

/* Of an open pool those above the threshold but the last leave the row, which stays open: what is left may be nearly all. */
static void xtc_open(struct pool *pool, double threshold) {
    double weight = threshold * row_mass(pool->row, scale_of(pool));
    if (weight > 1)
        return;
    double least = weight > 1e-300 ? pool->max + natural_logarithm(weight) / pool->beta : MINUS_INFINITY;
    close_near(pool, least);
    uint32_t above = reaching(pool, weight);
    pool->open = 1;
    for (uint32_t i = 0; i + 1 < above; i++)
        adjust_entry(pool->row, kept[i].id)->value = MINUS_INFINITY;
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

void pool_surprise(struct pool *pool, double mu) {
    pool_settle(pool);
    double mass = pool->open ? row_mass(pool->row, scale_of(pool)) : mass_of_kept(pool);
    double depth = mu * LN2_OF_BITS - natural_logarithm(mass); /* how far below the largest: beta (max - x) <= depth */
    if (pool->open)
        close_near(pool, pool->max - (depth > 0 ? depth : 0) / pool->beta);
    uint32_t count = 1;
    while (count < pool->count && (pool->max - kept[count].logit) * pool->beta <= depth)
        count++;
    pool->count = count;
}

double pool_spread(struct pool *pool) {
    struct moments sums;
    pool_settle(pool);
    if (pool->open) {
        sums = row_moments(pool->row, scale_of(pool));
    } else {
        weigh(pool);
        sums = list_moments(kept, weights, pool->count, scale_of(pool));
    }
    if (sums.count < 2)
        return 0;
    double entropy = natural_logarithm(sums.mass) - sums.weighted / sums.mass;
    double spread = entropy / natural_logarithm(sums.count);
    return spread > 0 ? spread < 1 ? spread : 1 : 0;
}

uint32_t pool_draw(struct pool *pool, double u) {
    pool_settle(pool);
    if (pool->open) {
        struct chain chain = {scale_of(pool), UINT32_MAX, 1, 0, u};
        return chain_draw(pool->row, &chain);
    }
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
