/* The candidates that the configured chain has left, and its filters.
 *
 * An open pool is the row itself: nothing was cut, and passes over it are SIMD. The first filter that cuts closes it:
 * from then on it is a sorted list. Filters that keep a prefix of the order close it over the few best candidates,
 * found by a guessed threshold; the guess decides the time, never what is kept. Top-n-sigma only sets a floor, for
 * top-k often comes next, and whoever needs the list closes it there. Typical sets a floor and a ceiling where the
 * spectrum tells them, and a dynamic temperature may be known between two bounds only: the draw comes next as a rule, and
 * takes both as they are.
 *
 * Probabilities are always those among what is left: e^(beta (x - max)) over their sum. There is one pool at a time.
 */
#ifndef POOL_H
#define POOL_H

#include "row.h"
#include "spectrum.h"

#define LN2_OF_BITS 0.69314718055994530942 /* nats in a bit */

/* Temperatures by entropy: least + (most - least) * (entropy / ln count)^exponent. */
struct dynamic {
    double least, most, exponent;
};

struct pool {
    struct row *row;
    struct candidate *list; /* of a closed pool, best first */
    uint32_t count;         /* of a closed pool; never 0 */
    int open;
    double floor, ceiling; /* of an open pool: what lies beyond them is gone, though not yet cut; infinite: nothing */
    double sigmas, safe;   /* of such a floor that is a bound: how many sigmas it lies below the maximum, and where it ends */
    double max;   /* largest logit */
    double beta;  /* what logits are multiplied with: 1 / temperature, once that stage has been */
    int is_pending; /* of an open pool: `dynamic` is asked for, of which only bounds are known, and beta is of before */
    struct dynamic dynamic;
    double coolest, hottest;
    int has_window; /* of an open pool: floor and ceiling lie in the spectrum's bins */
    struct spectrum spectrum; /* of an open pool with a window, or whose temperature is pending */
};

/* `max` is the row's maximum and above -inf. If it is +inf, those at +inf are all there is, and equal. */
void pool_begin(struct pool *pool, struct row *row, double max);

/* Around a penalty stage, which changes values: of the row's entries if the pool is open then, or of the closed list. */
void pool_settle(struct pool *pool);
void pool_refresh(struct pool *pool);

void pool_top_k(struct pool *pool, uint32_t k);
void pool_top_p(struct pool *pool, double p);
void pool_min_p(struct pool *pool, double p);
void pool_top_n_sigma(struct pool *pool, double n);
void pool_typical(struct pool *pool, double p);
void pool_xtc(struct pool *pool, double threshold);

/* Mirostat's cut: what surprises by more than `mu` bits goes, but for the likeliest. Closes the pool. */
void pool_surprise(struct pool *pool, double mu);

/* A temperature of 0 keeps the likeliest. */
void pool_temperature(struct pool *pool, double temperature);
void pool_dynamic_temperature(struct pool *pool, struct dynamic dynamic);

/* The first candidate whose cumulative probability exceeds u. */
uint32_t pool_draw(struct pool *pool, double u);

/* -log2 of the probability that `id` has in a closed pool. */
double pool_surprise_of(struct pool *pool, uint32_t id);

#endif
