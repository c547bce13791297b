#include "survey.h"

#include "exponential.h"
#include "limits.h"

#define CRESTS (BLOCK / CREST)          /* of a block */
#define GROUPS (CREST / LANES / GROUP) /* of a crest */

static v128_t crests[VOCAB_CAPACITY / CREST + CRESTS];
static v128_t summits[VOCAB_CAPACITY / BLOCK + 1];

/* Larger lane by lane; a NaN in `next` loses. */
static inline v128_t larger(v128_t best, v128_t next) {
    return wasm_f32x4_pmax(best, next);
}

static float largest_lane(v128_t lanes) {
    lanes = larger(lanes, wasm_i32x4_shuffle(lanes, lanes, 2, 3, 0, 1));
    lanes = larger(lanes, wasm_i32x4_shuffle(lanes, lanes, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(lanes, 0);
}

static inline v128_t group_max(const v128_t *group) {
    v128_t best = wasm_f32x4_splat((float)MINUS_INFINITY);
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < GROUP; i++)
        best = larger(best, group[i]);
    return best;
}

/* No maximum waits for that of another group. Crests are volatile, for Cranelift does what has no effect only where it is
 * needed: without a store behind each group it would load a whole turn before comparing any, through the stack. */
static inline void take_crest(const v128_t *vectors, volatile v128_t *crest) {
    v128_t highest = group_max(vectors);
#pragma clang loop unroll(full)
    for (uint32_t j = 1; j < GROUPS; j++) {
        *crest = highest;
        highest = larger(highest, group_max(vectors + j * GROUP));
    }
    *crest = highest;
}

/* Crests of all whole blocks. Each turn takes one crest of each of CRESTS parts of the row, not those of one block: behind
 * a model's step the row has left the near caches, and from four places it comes a sixth sooner than from one. */
static inline void take_crests(const float *logits, uint32_t blocks) {
    uint32_t part = blocks; /* crests of a part: there are CRESTS of each */
    for (uint32_t i = 0; i < part; i++)
#pragma clang loop unroll(full)
        for (uint32_t j = 0; j < CRESTS; j++)
            take_crest(vectors_of(logits + (j * part + i) * CREST), crests + j * part + i);
}

static inline v128_t summit_of(const v128_t *crest) {
    v128_t best = crest[0];
#pragma clang loop unroll(full)
    for (uint32_t i = 1; i < CRESTS; i++)
        best = larger(best, crest[i]);
    return best;
}

static uint32_t first_at_least(const float *logits, uint32_t at, uint32_t count, float least) {
    while (at < count && !(logits[at] >= least))
        at++;
    return at;
}

struct candidate survey_take(const float *logits, uint32_t count) {
    v128_t best = wasm_f32x4_splat((float)MINUS_INFINITY);
    uint32_t blocks = count / BLOCK, at = blocks * BLOCK;
    take_crests(logits, blocks);
    for (uint32_t block = 0; block < blocks; block++) {
        summits[block] = summit_of(crests + block * CRESTS);
        best = larger(best, summits[block]);
    }
    float max = largest_lane(best), before = max;
    for (; at < count; at++)
        max = logits[at] > max ? logits[at] : max;
    if (max > before || !blocks)
        return (struct candidate){max, first_at_least(logits, blocks * BLOCK, count, max), 0};
    uint32_t block = survey_next(0, count, max), bits = survey_crests(block, max);
    uint32_t crest = block * BLOCK + CREST * (uint32_t)__builtin_ctz(bits);
    return (struct candidate){max, first_at_least(logits, crest, count, max), 0};
}

uint32_t survey_next(uint32_t at, uint32_t count, float least) {
    v128_t wanted = wasm_f32x4_splat(least);
    uint32_t blocks = count / BLOCK;
    while (at < blocks) {
        if (at % GROUP == 0 && blocks - at >= GROUP && !any_at_least(summits + at, wanted))
            at += GROUP;
        else if (!wasm_v128_any_true(wasm_f32x4_ge(summits[at], wanted)))
            at++;
        else
            break;
    }
    return at;
}

uint32_t survey_crests(uint32_t block, float least) {
    v128_t wanted = wasm_f32x4_splat(least);
    uint32_t bits = 0;
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < CRESTS; i++)
        bits |= (uint32_t)wasm_v128_any_true(wasm_f32x4_ge(crests[block * CRESTS + i], wanted)) << i;
    return bits;
}

/* ---- threshold ---------------------------------------------------------------------------------------------------- */

#define RANGES 128u
#define LAST (RANGES - 1)
#define MOST_ROUNDS 8u /* each looks 128 times closer: more than float32 can */

static uint32_t counts[RANGES];

static inline void count_one(int32_t range) {
    counts[range]++;
}

/* Counts bounds by how many ranges of `width` they lie below `top`; those above it are in the first. */
static void count_ranges(const v128_t *bounds, uint32_t count, float top, float per_width) {
    v128_t highest = wasm_f32x4_splat(top), factor = wasm_f32x4_splat(per_width), last = wasm_i32x4_splat(LAST);
    __builtin_memset(counts, 0, sizeof counts);
    for (uint32_t i = 0; i < count; i++) {
        v128_t ranges = wasm_u32x4_trunc_sat_f32x4(wasm_f32x4_mul(wasm_f32x4_sub(highest, bounds[i]), factor));
        ranges = wasm_u32x4_min(ranges, last);
        count_one(wasm_i32x4_extract_lane(ranges, 0));
        count_one(wasm_i32x4_extract_lane(ranges, 1));
        count_one(wasm_i32x4_extract_lane(ranges, 2));
        count_one(wasm_i32x4_extract_lane(ranges, 3));
    }
}

struct span {
    double least, most; /* of those above -inf */
};

static struct span span_of(const v128_t *bounds, uint32_t count) {
    v128_t nothing = wasm_f32x4_splat((float)MINUS_INFINITY), none = wasm_f32x4_splat(__builtin_inff());
    v128_t least = none, most = nothing;
    for (uint32_t i = 0; i < count; i++) {
        v128_t there = wasm_f32x4_gt(bounds[i], nothing);
        least = wasm_f32x4_pmin(least, wasm_v128_bitselect(bounds[i], none, there));
        most = larger(most, bounds[i]);
    }
    v128_t upside = wasm_f32x4_neg(least);
    return (struct span){-(double)largest_lane(upside), largest_lane(most)};
}

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

/* Barely below the rank-th largest of the bounds: at least as many reach it. */
static float near_rank(const v128_t *bounds, uint32_t count, uint32_t rank) {
    struct span span = span_of(bounds, count);
    double top = span.most, width = (span.most - span.least) / RANGES;
    if (!(width > 0 && width < __builtin_inf())) /* they are all the same, or there are none */
        return (float)span.most;
    for (uint32_t round = 1;; round++) {
        count_ranges(bounds, count, (float)top, (float)(1 / width));
        uint32_t range = 0, reached = counts[0];
        while (range < LAST && reached < rank)
            reached += counts[++range];
        double bottom = top - width * (range + 1), slack = 1e-6 * (magnitude(bottom) + magnitude(top));
        if (reached <= rank + rank / 4 + LANES || range == LAST || width <= slack || round == MOST_ROUNDS)
            return (float)(bottom - slack);
        top -= width * range;
        width /= RANGES;
    }
}

float survey_threshold(uint32_t count, uint32_t wanted) {
    uint32_t blocks = count / BLOCK, few = blocks * LANES, many = few * CRESTS;
    if (wanted <= few / 2)
        return near_rank(summits, blocks, wanted);
    if (wanted <= many / 2)
        return near_rank(crests, blocks * CRESTS, wanted);
    if (wanted > 4 * (uint64_t)many)
        return (float)MINUS_INFINITY;
    /* with that many a bound stands for several of them; so often is one of `many` met by `wanted` thrown at them */
    double missed = wasm_f64x2_extract_lane(exponential(wasm_f64x2_splat(-(double)wanted / many)), 0);
    return near_rank(crests, blocks * CRESTS, (uint32_t)(many * (1 - missed)));
}
