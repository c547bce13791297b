#include "spectrum.h"

#include <wasm_simd128.h>

#include "exponential.h"
#include "ties.h"

#define LANES 4u
#define UNROLL 16u /* logits a turn, as in row.c */

uint32_t spectrum_counts[BINS];
double spectrum_masses[BINS];

/* One addition counts and sums: 2^19 logits of less than 2^19 quanta each stay below the counter. */
#define COUNTER_BITS 40
#define MOST_SHIFT 19  /* so that depths stay below 2^32 */
#define LEAST_SHIFT 8  /* so that half a bin is more than a float32 of this size rounds by */

struct bin {
    uint64_t counted; /* number << COUNTER_BITS | sum of t */
    uint64_t squares; /* sum of t^2 */
};

static struct bin bins[BINS + 1]; /* the last one holds what lies beyond, and what is no number */
static double numbers[BINS], sums[BINS], squares[BINS]; /* the same as float64, t in quanta */

static void extend(struct extent *extent, double value) {
    if (!(value > MINUS_INFINITY))
        return;
    extent->count++;
    if (value < extent->least)
        extent->least = value;
}

static struct extent extent_of(const struct row *row) {
    struct extent extent = logits_extent(row->logits, row->count);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        extend(&extent, row->adjusted[i].value);
    return extent;
}

/* The exponent of x > 0: 2^exponent <= x < 2^(exponent + 1). */
static int exponent_of(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 52 & 0x7FF) - 1023;
}

static double power_of_two(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return power;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

/* Chooses widths and quanta. Whether there are any. */
static int lay_out(struct spectrum *spectrum, double least, double beta) {
    double range = spectrum->max - least, widest = 1 / (64 * beta);
    if (!(widest > 1e-30 && range < 1e30))
        return 0;
    int width = exponent_of(widest), enough = range > 1e-30 ? exponent_of(range / BINS) + 1 : -60;
    width = enough < width ? enough : width;
    double reach = BINS * power_of_two(width);
    double end = least > spectrum->max - reach ? least : spectrum->max - reach;
    double largest = larger(magnitude(spectrum->max), magnitude(end)) + 2 * power_of_two(width);
    int quantum = exponent_of(largest) - 30; /* so that all of them stay below 2^31 */
    quantum = quantum > width - MOST_SHIFT ? quantum : width - MOST_SHIFT;
    width = width > quantum + LEAST_SHIFT ? width : quantum + LEAST_SHIFT;
    if (width > exponent_of(widest))
        return 0;
    spectrum->width = power_of_two(width);
    spectrum->quantum = power_of_two(quantum);
    spectrum->per_logit = power_of_two(-quantum);
    spectrum->shift = (uint32_t)(width - quantum);
    spectrum->origin = (int32_t)__builtin_ceil(spectrum->max * spectrum->per_logit);
    return 1;
}

/* How far below the origin, in quanta. */
static uint32_t depth_of(const struct spectrum *spectrum, double logit) {
    double scaled = logit * spectrum->per_logit, beyond = (double)spectrum->origin - (double)(BINS << spectrum->shift);
    if (!(scaled > beyond))
        return BINS << spectrum->shift;
    return (uint32_t)spectrum->origin - (uint32_t)(int32_t)scaled;
}

uint32_t spectrum_bin(const struct spectrum *spectrum, double logit) {
    uint32_t bin = depth_of(spectrum, logit) >> spectrum->shift;
    return bin < BINS ? bin : BINS;
}

static inline void count_one(uint32_t depth, uint32_t shift, uint32_t mask) {
    struct bin *bin = &bins[depth >> shift];
    uint64_t rest = depth & mask;
    bin->counted += (1ull << COUNTER_BITS) | rest;
    bin->squares += rest * rest;
}

/* Depths of four logits; none is beyond the last bin but one. */
struct scaling {
    v128_t least, factor, origin;
};

static v128_t depths_of(v128_t logits, const struct scaling *scaling) {
    v128_t there = wasm_f32x4_pmax(scaling->least, logits); /* not a number: the least */
    return wasm_i32x4_sub(scaling->origin, wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_mul(there, scaling->factor)));
}

static inline void count_four(v128_t depths, uint32_t shift, uint32_t mask) {
    uint64_t low = (uint64_t)wasm_i64x2_extract_lane(depths, 0), high = (uint64_t)wasm_i64x2_extract_lane(depths, 1);
    uint32_t four[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < 4; i++)
        count_one(four[i], shift, mask);
}

static void count_row(const struct spectrum *spectrum, const struct row *row) {
    uint32_t shift = spectrum->shift, mask = (1u << shift) - 1, at = 0;
    __asm__("" : "+r"(mask)); /* else it is made of `shift` anew for every logit */
    double beyond = (double)spectrum->origin - (BINS + 0.5) * (double)(1u << shift);
    struct scaling scaling = {
        wasm_f32x4_splat((float)(beyond * spectrum->quantum)), wasm_f32x4_splat((float)spectrum->per_logit),
        wasm_i32x4_splat(spectrum->origin)};
    for (; row->count - at >= UNROLL; at += UNROLL)
#pragma clang loop unroll(full)
        for (uint32_t i = 0; i < UNROLL; i += LANES)
            count_four(depths_of(wasm_v128_load(row->logits + at + i), &scaling), shift, mask);
    for (; at < row->count; at++)
        count_one(depth_of(spectrum, row->logits[at]), shift, mask);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        count_one(depth_of(spectrum, row->adjusted[i].value), shift, mask);
}

int spectrum_take(struct spectrum *spectrum, const struct row *row, double max, double beta) {
    struct extent extent = extent_of(row);
    *spectrum = (struct spectrum){.max = max, .count = extent.count};
    if (!lay_out(spectrum, extent.least, beta))
        return 0;
    __builtin_memset(bins, 0, sizeof bins);
    count_row(spectrum, row);
    for (uint32_t b = 0; b < BINS; b++) {
        spectrum_counts[b] = (uint32_t)(bins[b].counted >> COUNTER_BITS);
        numbers[b] = spectrum_counts[b];
        sums[b] = (double)(int64_t)(bins[b].counted & ((1ull << COUNTER_BITS) - 1));
        squares[b] = (double)(int64_t)bins[b].squares;
        spectrum->counted += spectrum_counts[b];
        spectrum->bins = spectrum_counts[b] ? b + 1 : spectrum->bins;
    }
    return 1;
}

static double power_of_e(double x) {
    return wasm_f64x2_extract_lane(exponential(wasm_f64x2_splat(x)), 0);
}

#define ROUNDED 1e-12 /* exponentials and sums, generously */

/* Factors of a bin's number, sum and sum of squares. */
struct factors {
    v128_t number, sum, square;
};

static v128_t combined(uint32_t bin, const struct factors *factors) {
    v128_t all = wasm_f64x2_mul(wasm_v128_load(numbers + bin), factors->number);
    all = wasm_f64x2_add(all, wasm_f64x2_mul(wasm_v128_load(sums + bin), factors->sum));
    return wasm_f64x2_add(all, wasm_f64x2_mul(wasm_v128_load(squares + bin), factors->square));
}

static struct factors factors_of(double number, double sum, double square) {
    return (struct factors){wasm_f64x2_splat(number), wasm_f64x2_splat(sum), wasm_f64x2_splat(square)};
}

static double both(v128_t lanes) {
    return wasm_f64x2_extract_lane(lanes, 0) + wasm_f64x2_extract_lane(lanes, 1);
}

/* Two bins at a time. With h half a bin's width and t' = t - h, all in nats: the mass is e^-c (n - sum t' + sum t'^2 / 2)
 * and what it adds to `weighted` is c times that and e^-c (sum t' - sum t'^2). */
struct weighed spectrum_weigh(const struct spectrum *spectrum, double beta) {
    enum { PART = 64 };
    double coarse[BINS / PART], fine[PART]; /* e^-c is a product of two of them */
    double width = beta * spectrum->width, quantum = beta * spectrum->quantum, h = width / 2;
    double above = beta * (spectrum->origin * spectrum->quantum - spectrum->max), reach = BINS * width - above;
    for (uint32_t i = 0; i < PART; i++) {
        coarse[i] = power_of_e(-width * PART * i);
        fine[i] = power_of_e(-(width * (i + 0.5) - above));
    }
    struct factors of_mass = factors_of(1 + h + h * h / 2, -(1 + h) * quantum, quantum * quantum / 2);
    struct factors of_rest = factors_of(-(h + h * h), (1 + 2 * h) * quantum, -quantum * quantum);
    v128_t centre = wasm_f64x2_make(h - above, h + width - above), next = wasm_f64x2_splat(2 * width);
    v128_t mass = wasm_f64x2_splat(0), weighted = mass;
    for (uint32_t b = 0; b < spectrum->bins; b += 2) {
        v128_t weight = wasm_f64x2_mul(wasm_f64x2_splat(coarse[b / PART]), wasm_v128_load(fine + b % PART));
        v128_t masses = wasm_f64x2_mul(weight, combined(b, &of_mass));
        v128_t rest = wasm_f64x2_mul(weight, combined(b, &of_rest));
        wasm_v128_store(spectrum_masses + b, masses);
        mass = wasm_f64x2_add(mass, masses);
        weighted = wasm_f64x2_add(weighted, wasm_f64x2_add(wasm_f64x2_mul(masses, centre), rest));
        centre = wasm_f64x2_add(centre, next);
    }
    double beyond = (spectrum->count - spectrum->counted) * power_of_e(-reach);
    double series = h * h * h * (1 + 2 * h) / 6 + quantum + ROUNDED;
    struct weighed all = {both(mass), series + beyond, both(weighted), 0}; /* the likeliest one weighs 1 */
    all.weighted_error = series * (all.weighted + 5 * all.mass) + beyond * (1 + reach);
    return all;
}

uint32_t spectrum_gather(
    const struct spectrum *spectrum, const struct row *row, uint32_t first, uint32_t last, double least, double most,
    struct candidate *out) {
    double top = (spectrum->origin - (double)(first << spectrum->shift) + 1) * spectrum->quantum;
    double bottom = (spectrum->origin - (double)((last + 1) << spectrum->shift) - 1) * spectrum->quantum;
    uint32_t found = row_gather_within(row, bottom > least ? bottom : least, top < most ? top : most, out), kept = 0;
    for (uint32_t i = 0; i < found; i++) {
        uint32_t bin = spectrum_bin(spectrum, out[i].logit);
        if (bin >= first && bin <= last && out[i].logit >= least && out[i].logit <= most)
            out[kept++] = out[i];
    }
    return kept;
}

int spectrum_is_tied(const struct spectrum *spectrum, const struct row *row, uint32_t bin, float *value) {
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        if (spectrum_bin(spectrum, row->adjusted[i].value) == bin)
            return 0;
    for (uint32_t i = 0; i < row->count; i++)
        if (spectrum_bin(spectrum, row->logits[i]) == bin) {
            *value = row->logits[i];
            return ties_count(row, *value) == spectrum_counts[bin];
        }
    return 0;
}
