#include "row.h"

#include "exponential.h"
#include "survey.h"

#define UNROLL 16u /* logits a turn where much is done with each */

struct candidate row_best(struct row *row) {
    if (!row->is_known)
        row->rest = survey_take(row->logits, row->count);
    row->is_known = 1;
    struct candidate best = row->rest;
    for (uint32_t i = 0; i < row->adjusted_count; i++) {
        const struct adjusted *one = &row->adjusted[i];
        if (one->value > best.logit || (one->value == best.logit && one->id < best.id))
            best = (struct candidate){one->value, one->id, 0};
    }
    return best;
}

static uint32_t gather_adjusted(const struct row *row, float least, struct candidate *out, uint32_t found) {
    for (uint32_t i = 0; i < row->adjusted_count; i++) {
        double value = row->adjusted[i].value;
        if (value >= least && value > MINUS_INFINITY) /* float64 reaches below -FLT_MAX */
            out[found++] = (struct candidate){value, row->adjusted[i].id, 0};
    }
    return found;
}

/* Those of four logits whose bits are set. */
static inline uint32_t gather_four(
    v128_t logits, uint32_t bits, uint32_t at, struct candidate *out, uint32_t found) {
    out[found] = (struct candidate){wasm_f32x4_extract_lane(logits, 0), at, 0};
    found += bits & 1;
    out[found] = (struct candidate){wasm_f32x4_extract_lane(logits, 1), at + 1, 0};
    found += bits >> 1 & 1;
    out[found] = (struct candidate){wasm_f32x4_extract_lane(logits, 2), at + 2, 0};
    found += bits >> 2 & 1;
    out[found] = (struct candidate){wasm_f32x4_extract_lane(logits, 3), at + 3, 0};
    return found + (bits >> 3);
}

struct bounds {
    float least, most;
};

static inline v128_t within(v128_t four, v128_t least, v128_t most) {
    return wasm_v128_and(wasm_f32x4_ge(four, least), wasm_f32x4_le(four, most));
}

static inline int any_within(const v128_t *group, v128_t least, v128_t most) {
    v128_t any = wasm_i32x4_splat(0);
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < GROUP; i++)
        any = wasm_v128_or(any, within(group[i], least, most));
    return wasm_v128_any_true(any);
}

/* Of a crest's logits those within the bounds. */
static uint32_t gather_crest(
    const float *logits, uint32_t at, const struct bounds *bounds, struct candidate *out, uint32_t found) {
    v128_t least = wasm_f32x4_splat(bounds->least), most = wasm_f32x4_splat(bounds->most);
    for (uint32_t stop = at + CREST; at < stop; at += GROUP * LANES) {
        const v128_t *group = vectors_of(logits + at);
        if (!any_within(group, least, most))
            continue;
#pragma clang loop unroll(full)
        for (uint32_t i = 0; i < GROUP; i++) {
            uint32_t bits = wasm_i32x4_bitmask(within(group[i], least, most));
            if (bits)
                found = gather_four(group[i], bits, at + i * LANES, out, found);
        }
    }
    return found;
}

#define TOO_MANY UINT32_MAX

/* Logits within the bounds, by ascending id, unless they are more than `most`. */
static uint32_t gather(const struct row *row, struct bounds bounds, uint32_t most, struct candidate *out) {
    uint32_t found = 0, blocks = row->count / BLOCK;
    for (uint32_t block = 0; (block = survey_next(block, row->count, bounds.least)) < blocks; block++) {
        for (uint32_t crests = survey_crests(block, bounds.least); crests; crests &= crests - 1) {
            uint32_t at = block * BLOCK + CREST * (uint32_t)__builtin_ctz(crests);
            found = gather_crest(row->logits, at, &bounds, out, found);
        }
        if (found > most)
            return TOO_MANY;
    }
    for (uint32_t at = blocks * BLOCK; at < row->count; at++)
        if (row->logits[at] >= bounds.least && row->logits[at] <= bounds.most)
            out[found++] = (struct candidate){row->logits[at], at, 0};
    return found;
}

uint32_t row_gather(const struct row *row, float least, struct candidate *out) {
    return row_gather_some(row, least, UINT32_MAX, out);
}

uint32_t row_gather_some(const struct row *row, float least, uint32_t most, struct candidate *out) {
    struct bounds bounds = {least > (float)MINUS_INFINITY ? least : -__FLT_MAX__, __builtin_inff()};
    uint32_t found = gather(row, bounds, most, out);
    return found == TOO_MANY ? 0 : gather_adjusted(row, least, out, found);
}

/* A float32 a little below `x`. */
static float below(double x) {
    return (float)(x - (x < 0 ? -x : x) * 1e-6 - 1e-30);
}

uint32_t row_gather_within(const struct row *row, double least, double most, struct candidate *out) {
    uint32_t found = gather(row, (struct bounds){below(least), -below(-most)}, UINT32_MAX, out);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        if (row->adjusted[i].value >= least && row->adjusted[i].value <= most)
            out[found++] = (struct candidate){row->adjusted[i].value, row->adjusted[i].id, 0};
    return found;
}

struct extent logits_extent(const float *logits, uint32_t count) {
    v128_t nothing = wasm_f32x4_splat((float)MINUS_INFINITY), most = wasm_f32x4_splat(__builtin_inff());
    v128_t least = most, counts = wasm_i32x4_splat(0);
    uint32_t at = 0;
    for (; count - at >= UNROLL; at += UNROLL)
        for (uint32_t i = 0; i < UNROLL; i += LANES) {
            v128_t four = wasm_v128_load(logits + at + i), there = wasm_f32x4_gt(four, nothing);
            counts = wasm_i32x4_sub(counts, there);
            least = wasm_f32x4_pmin(least, wasm_v128_bitselect(four, most, there));
        }
    float lanes[LANES];
    uint32_t numbers[LANES];
    wasm_v128_store(lanes, least);
    wasm_v128_store(numbers, counts);
    struct extent extent = {__builtin_inf(), 0};
    for (uint32_t i = 0; i < LANES; i++) {
        extent.least = lanes[i] < extent.least ? lanes[i] : extent.least;
        extent.count += numbers[i];
    }
    for (; at < count; at++)
        if (logits[at] > (float)MINUS_INFINITY) {
            extent.least = logits[at] < extent.least ? logits[at] : extent.least;
            extent.count++;
        }
    return extent;
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
