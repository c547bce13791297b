#include "row.h"

#include <wasm_simd128.h>

#include "exponential.h"

#define LANES 4u
#define UNROLL 16u /* logits a turn: each turn of a loop pays an epoch check and spills around it */
#define BLOCK 512u /* the same where each is only compared */
#define GROUP 8u   /* vectors that are loaded before they are compared */

/* Larger lane by lane; a NaN in `next` loses. */
static v128_t larger(v128_t best, v128_t next) {
    return wasm_f32x4_pmax(best, next);
}

static float largest_lane(v128_t lanes) {
    lanes = larger(lanes, wasm_i32x4_shuffle(lanes, lanes, 2, 3, 0, 1));
    lanes = larger(lanes, wasm_i32x4_shuffle(lanes, lanes, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(lanes, 0);
}

struct block {
    v128_t vectors[BLOCK / LANES];
};

static inline const struct block *block_of(const float *logits) {
    __asm__("" : "+r"(logits)); /* else LLVM's strength reduction makes an addition of every load's offset */
    return (const struct block *)(const void *)logits;
}

/* Where the maxima of groups go: Cranelift does what has no effect only where it is needed, and would load all of a block
 * before comparing any, through the stack. Nobody reads it. */
static volatile v128_t forced;

/* The largest of a block, in one of four lanes. */
static inline v128_t block_max(const struct block *block) {
    v128_t nothing = wasm_f32x4_splat((float)MINUS_INFINITY), best = nothing;
#pragma clang loop unroll(full)
    for (uint32_t group = 0; group < BLOCK / LANES; group += GROUP) {
        v128_t even = best, odd = nothing;
#pragma clang loop unroll(full)
        for (uint32_t i = group; i < group + GROUP; i += 2) {
            even = larger(even, block->vectors[i]);
            odd = larger(odd, block->vectors[i + 1]);
        }
        forced = best = larger(even, odd);
    }
    return best;
}

/* Whether any of a group is at least `least`. */
static inline int any_at_least(const v128_t *group, v128_t least) {
    v128_t any = wasm_f32x4_ge(group[0], least);
#pragma clang loop unroll(full)
    for (uint32_t i = 1; i < GROUP; i++)
        any = wasm_v128_or(any, wasm_f32x4_ge(group[i], least));
    return wasm_v128_any_true(any);
}

/* The lowest index from `at`, a multiple of 4, on whose logit is at least `least`; `count` when there is none. */
static uint32_t first_at_least(const float *logits, uint32_t at, uint32_t count, float least) {
    v128_t wanted = wasm_f32x4_splat(least);
    while (count - at >= GROUP * LANES && !any_at_least((const v128_t *)(const void *)(logits + at), wanted))
        at += GROUP * LANES;
    while (at < count && !(logits[at] >= least))
        at++;
    return at;
}

static uint32_t least_lane(v128_t lanes) {
    lanes = wasm_u32x4_min(lanes, wasm_i32x4_shuffle(lanes, lanes, 2, 3, 0, 1));
    lanes = wasm_u32x4_min(lanes, wasm_i32x4_shuffle(lanes, lanes, 1, 0, 3, 2));
    return (uint32_t)wasm_i32x4_extract_lane(lanes, 0);
}

/* One pass, and a look at one block: each lane knows the first block that holds its maximum. */
static struct candidate logits_best(const float *logits, uint32_t count) {
    v128_t best = wasm_f32x4_splat((float)MINUS_INFINITY), first = wasm_i32x4_splat(0);
    uint32_t at = 0;
    for (; count - at >= BLOCK; at += BLOCK) {
        v128_t next = block_max(block_of(logits + at));
        first = wasm_v128_bitselect(wasm_i32x4_splat((int32_t)at), first, wasm_f32x4_gt(next, best));
        best = larger(best, next);
    }
    float max = largest_lane(best);
    uint32_t block = least_lane(wasm_v128_or(first, wasm_f32x4_lt(best, wasm_f32x4_splat(max))));
    for (uint32_t tail = at; tail < count; tail++)
        if (logits[tail] > max) {
            max = logits[tail];
            block = at; /* of at most BLOCK - 1 */
        }
    return (struct candidate){max, first_at_least(logits, block, count, max)};
}

struct candidate row_best(const struct row *row) {
    struct candidate best = logits_best(row->logits, row->count);
    for (uint32_t i = 0; i < row->adjusted_count; i++) {
        const struct adjusted *one = &row->adjusted[i];
        if (one->value > best.logit || (one->value == best.logit && one->id < best.id))
            best = (struct candidate){one->value, one->id};
    }
    return best;
}

static uint32_t gather_adjusted(const struct row *row, float least, struct candidate *out, uint32_t found) {
    for (uint32_t i = 0; i < row->adjusted_count; i++) {
        double value = row->adjusted[i].value;
        if (value >= least && value > MINUS_INFINITY) /* float64 reaches below -FLT_MAX */
            out[found++] = (struct candidate){value, row->adjusted[i].id};
    }
    return found;
}

static __attribute__((noinline)) uint32_t gather_some(
    const float *logits, uint32_t at, uint32_t count, float smallest, struct candidate *out, uint32_t found) {
    for (uint32_t stop = at + count; at < stop; at++)
        if (logits[at] >= smallest)
            out[found++] = (struct candidate){logits[at], at};
    return found;
}

uint32_t row_gather(const struct row *row, float least, struct candidate *out) {
    return row_gather_some(row, least, UINT32_MAX, out);
}

uint32_t row_gather_some(const struct row *row, float least, uint32_t most, struct candidate *out) {
    float smallest = least > (float)MINUS_INFINITY ? least : -__FLT_MAX__;
    v128_t threshold = wasm_f32x4_splat(smallest);
    uint32_t found = 0, at = 0;
    for (; row->count - at >= BLOCK; at += BLOCK) {
        const struct block *block = block_of(row->logits + at);
#pragma clang loop unroll(full)
        for (uint32_t group = 0; group < BLOCK / LANES; group += GROUP)
            if (any_at_least(block->vectors + group, threshold))
                found = gather_some(row->logits, at + group * LANES, GROUP * LANES, smallest, out, found);
        if (found > most)
            return 0;
    }
    found = gather_some(row->logits, at, row->count - at, smallest, out, found);
    return gather_adjusted(row, least, out, found);
}

/* A float32 a little below `x`. */
static float below(double x) {
    return (float)(x - (x < 0 ? -x : x) * 1e-6 - 1e-30);
}

static inline int any_within(const v128_t *group, v128_t least, v128_t most) {
    v128_t any = wasm_i32x4_splat(0);
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < GROUP; i++)
        any = wasm_v128_or(any, wasm_v128_and(wasm_f32x4_ge(group[i], least), wasm_f32x4_le(group[i], most)));
    return wasm_v128_any_true(any);
}

static __attribute__((noinline)) uint32_t gather_within(
    const float *logits, uint32_t at, uint32_t count, float least, float most, struct candidate *out, uint32_t found) {
    for (uint32_t stop = at + count; at < stop; at++)
        if (logits[at] >= least && logits[at] <= most)
            out[found++] = (struct candidate){logits[at], at};
    return found;
}

uint32_t row_gather_within(const struct row *row, double least, double most, struct candidate *out) {
    float low = below(least), high = -below(-most);
    v128_t from = wasm_f32x4_splat(low), to = wasm_f32x4_splat(high);
    uint32_t found = 0, at = 0;
    for (; row->count - at >= BLOCK; at += BLOCK) {
        const struct block *block = block_of(row->logits + at);
#pragma clang loop unroll(full)
        for (uint32_t group = 0; group < BLOCK / LANES; group += GROUP)
            if (any_within(block->vectors + group, from, to))
                found = gather_within(row->logits, at + group * LANES, GROUP * LANES, low, high, out, found);
    }
    found = gather_within(row->logits, at, row->count - at, low, high, out, found);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        if (row->adjusted[i].value >= least && row->adjusted[i].value <= most)
            out[found++] = (struct candidate){row->adjusted[i].value, row->adjusted[i].id};
    return found;
}

double weight_of(double logit, struct scale scale) {
    if (logit == scale.max) /* +inf - +inf is no number */
        return 1.0;
    return wasm_f64x2_extract_lane(exponential(wasm_f64x2_splat((logit - scale.max) * scale.inverse)), 0);
}

static v128_t upper_half(v128_t lanes) {
    return wasm_i32x4_shuffle(lanes, lanes, 2, 3, 0, 1);
}

/* Weights of the low two of four logits. */
static v128_t two_weights(v128_t logits, struct scale scale) {
    v128_t below = wasm_f64x2_sub(wasm_f64x2_promote_low_f32x4(logits), wasm_f64x2_splat(scale.max));
    return exponential(wasm_f64x2_mul(below, wasm_f64x2_splat(scale.inverse)));
}

void weights_of(const struct candidate *candidates, uint32_t count, struct scale scale, double *out) {
    v128_t max = wasm_f64x2_splat(scale.max), inverse = wasm_f64x2_splat(scale.inverse);
    uint32_t i = 0;
    for (; i + 2 <= count && scale.max < __builtin_inf(); i += 2) {
        v128_t logits = wasm_f64x2_make(candidates[i].logit, candidates[i + 1].logit);
        wasm_v128_store(out + i, exponential(wasm_f64x2_mul(wasm_f64x2_sub(logits, max), inverse)));
    }
    for (; i < count; i++)
        out[i] = weight_of(candidates[i].logit, scale);
}

static double adjusted_mass(const struct row *row, struct scale scale, double least) {
    double mass = 0;
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        if (row->adjusted[i].value < least)
            mass += weight_of(row->adjusted[i].value, scale);
    return mass;
}

double row_mass(const struct row *row, struct scale scale) {
    v128_t low = wasm_f64x2_splat(0), high = wasm_f64x2_splat(0);
    uint32_t at = 0;
    for (; at + UNROLL <= row->count; at += UNROLL)
        for (uint32_t i = 0; i < UNROLL; i += LANES) {
            v128_t logits = wasm_v128_load(row->logits + at + i);
            low = wasm_f64x2_add(low, two_weights(logits, scale));
            high = wasm_f64x2_add(high, two_weights(upper_half(logits), scale));
        }
    v128_t both = wasm_f64x2_add(low, high);
    double mass = wasm_f64x2_extract_lane(both, 0) + wasm_f64x2_extract_lane(both, 1);
    for (; at < row->count; at++)
        mass += weight_of(row->logits[at], scale);
    return mass + adjusted_mass(row, scale, __builtin_inf());
}

static double sum_of_lanes(v128_t lanes) {
    v128_t pairs = wasm_f64x2_add(wasm_f64x2_promote_low_f32x4(lanes), wasm_f64x2_promote_low_f32x4(upper_half(lanes)));
    return wasm_f64x2_extract_lane(pairs, 0) + wasm_f64x2_extract_lane(pairs, 1);
}

/* What rough weights need, four times each. */
struct rough_scale {
    v128_t factor, offset; /* offset + x * factor: fixed-point logarithm of the weight, to base 2 */
    v128_t above, below;   /* exclusive bounds of the logits that count */
};

static v128_t rough_weights(const float *logits, const struct rough_scale *scale) {
    v128_t values = wasm_v128_load(logits);
    v128_t counts = wasm_v128_and(wasm_f32x4_lt(values, scale->above), wasm_f32x4_gt(values, scale->below));
    v128_t fixed = wasm_f32x4_add(wasm_f32x4_mul(values, scale->factor), scale->offset);
    return wasm_v128_and(rough_doubled(fixed), counts);
}

/* Four float32 sums would drift over a whole row; over this many logits they do not. */
#define ROUGH_BLOCK 512u

static double rough_block(const float *logits, uint32_t count, const struct rough_scale *scale) {
    v128_t sum = wasm_f32x4_splat(0);
    for (uint32_t at = 0; at < count; at += UNROLL)
        for (uint32_t i = 0; i < UNROLL; i += LANES)
            sum = wasm_f32x4_add(sum, rough_weights(logits + at + i, scale));
    return sum_of_lanes(sum);
}

/* The polynomial's error, and that of rounding products as large as max / T to 24 bits, twice. */
double rough_error(struct scale scale) {
    double magnitude = (scale.max < 0 ? -scale.max : scale.max) * scale.inverse - ROUGH_LEAST;
    return 2e-4 + 2 * magnitude * 0x1p-24;
}

double row_rough_mass(const struct row *row, struct scale scale, float least) {
    double factor = scale.inverse / LN2 * (1 << ROUGH_BITS), reach = ROUGH_LEAST / scale.inverse;
    struct rough_scale rough_scale = {
        wasm_f32x4_splat((float)factor), wasm_f32x4_splat((float)(ROUNDING_32 - scale.max * (float)factor)),
        wasm_f32x4_splat(least), wasm_f32x4_splat((float)(scale.max + reach))};
    double mass = 0;
    uint32_t at = 0, whole = row->count & ~(UNROLL - 1);
    while (at < whole) {
        uint32_t size = whole - at < ROUGH_BLOCK ? whole - at : ROUGH_BLOCK;
        mass += rough_block(row->logits + at, size, &rough_scale);
        at += size;
    }
    mass *= 0.5;
    for (; at < row->count; at++)
        if (row->logits[at] < least)
            mass += weight_of(row->logits[at], scale);
    return mass + adjusted_mass(row, scale, least);
}
