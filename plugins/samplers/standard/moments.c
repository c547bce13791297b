#include "moments.h"

#include <wasm_simd128.h>

#include "exponential.h"

#define LANES 4u
#define UNROLL 16u /* logits a turn, as in row.c */

struct moments list_moments(const struct candidate *list, const double *weights, uint32_t count, struct scale scale) {
    struct moments sums = {0, 0, count};
    for (uint32_t i = 0; i < count; i++) {
        sums.mass += weights[i];
        if (weights[i] > 0)
            sums.weighted += weights[i] * ((list[i].logit - scale.max) * scale.inverse);
    }
    return sums;
}

static double both(v128_t lanes) {
    return wasm_f64x2_extract_lane(lanes, 0) + wasm_f64x2_extract_lane(lanes, 1);
}

static v128_t upper_half(v128_t lanes) {
    return wasm_i32x4_shuffle(lanes, lanes, 2, 3, 0, 1);
}

/* Four counters, one for each lane. */
static uint32_t total(v128_t lanes) {
    return (uint32_t)(wasm_i32x4_extract_lane(lanes, 0) + wasm_i32x4_extract_lane(lanes, 1) +
                      wasm_i32x4_extract_lane(lanes, 2) + wasm_i32x4_extract_lane(lanes, 3));
}

static void add_pair(v128_t logits, struct scale scale, v128_t *mass, v128_t *weighted) {
    v128_t d = wasm_f64x2_sub(wasm_f64x2_promote_low_f32x4(logits), wasm_f64x2_splat(scale.max));
    d = wasm_f64x2_pmax(wasm_f64x2_splat(EXPONENTIAL_LEAST), wasm_f64x2_mul(d, wasm_f64x2_splat(scale.inverse)));
    v128_t weight = exponential(d); /* -inf and NaN: 1e-304, which adds nothing to a sum that holds a 1 */
    *mass = wasm_f64x2_add(*mass, weight);
    *weighted = wasm_f64x2_add(*weighted, wasm_f64x2_mul(weight, d));
}

static void add_one(double logit, struct scale scale, struct moments *sums) {
    double d = (logit - scale.max) * scale.inverse, weight = weight_of(logit, scale);
    sums->mass += weight;
    sums->weighted += weight > 0 ? weight * d : 0;
    sums->count += logit > MINUS_INFINITY;
}

struct moments row_moments(const struct row *row, struct scale scale) {
    v128_t mass = wasm_f64x2_splat(0), weighted = mass, counts = mass;
    v128_t nothing = wasm_f32x4_splat((float)MINUS_INFINITY);
    uint32_t at = 0;
    for (; at + UNROLL <= row->count; at += UNROLL)
        for (uint32_t i = 0; i < UNROLL; i += LANES) {
            v128_t logits = wasm_v128_load(row->logits + at + i);
            counts = wasm_i32x4_sub(counts, wasm_f32x4_gt(logits, nothing));
            add_pair(logits, scale, &mass, &weighted);
            add_pair(upper_half(logits), scale, &mass, &weighted);
        }
    struct moments sums = {both(mass), both(weighted), total(counts)};
    for (; at < row->count; at++)
        add_one(row->logits[at], scale, &sums);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        add_one(row->adjusted[i].value, scale, &sums);
    return sums;
}

struct spread {
    double sum, squares; /* of x - max */
    uint32_t count;
};

static void add_distance(double logit, double max, struct spread *spread) {
    if (!(logit > MINUS_INFINITY))
        return;
    spread->sum += logit - max;
    spread->squares += (logit - max) * (logit - max);
    spread->count++;
}

static double sigma_of(struct spread spread) {
    double mean = spread.sum / spread.count, variance = spread.squares / spread.count - mean * mean;
    return variance > 0 ? __builtin_sqrt(variance) : 0;
}

double list_sigma(const struct candidate *list, uint32_t count, double max) {
    struct spread spread = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++)
        add_distance(list[i].logit, max, &spread);
    return sigma_of(spread);
}

/* Sums of four logits' distances, two and two. */
struct distances {
    v128_t sum, squares, counts;
};

static void add_four(const float *at, v128_t max, struct distances *sums) {
    v128_t logits = wasm_v128_load(at), there = wasm_f32x4_gt(logits, wasm_f32x4_splat((float)MINUS_INFINITY));
    v128_t low = wasm_f64x2_sub(wasm_f64x2_promote_low_f32x4(logits), max);
    v128_t high = wasm_f64x2_sub(wasm_f64x2_promote_low_f32x4(upper_half(logits)), max);
    low = wasm_v128_and(low, wasm_i32x4_shuffle(there, there, 0, 0, 1, 1));
    high = wasm_v128_and(high, wasm_i32x4_shuffle(there, there, 2, 2, 3, 3));
    sums->counts = wasm_i32x4_sub(sums->counts, there);
    sums->sum = wasm_f64x2_add(sums->sum, wasm_f64x2_add(low, high));
    low = wasm_f64x2_mul(low, low);
    high = wasm_f64x2_mul(high, high);
    sums->squares = wasm_f64x2_add(sums->squares, wasm_f64x2_add(low, high));
}

double row_sigma(const struct row *row, double max) {
    v128_t zero = wasm_f64x2_splat(0), largest = wasm_f64x2_splat(max);
    struct distances sums = {zero, zero, zero};
    uint32_t at = 0;
    for (; at + UNROLL <= row->count; at += UNROLL)
        for (uint32_t i = 0; i < UNROLL; i += LANES)
            add_four(row->logits + at + i, largest, &sums);
    struct spread spread = {both(sums.sum), both(sums.squares), total(sums.counts)};
    for (; at < row->count; at++)
        add_distance(row->logits[at], max, &spread);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        add_distance(row->adjusted[i].value, max, &spread);
    return sigma_of(spread);
}
