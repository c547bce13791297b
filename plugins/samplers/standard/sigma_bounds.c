#include "sigma_bounds.h"

#include "moments.h"
#include "survey.h"

#define OCTETS 4u                 /* of logits, summed before anything is stored */
#define PARTS 4u                  /* of so many octets */
#define TURN (PARTS * OCTETS * 8) /* logits a turn */
#define MOST 16383                /* magnitude of an integer: four products of pairs stay below 2^31 */
#define SAMPLE 256u               /* logits that are looked at to guess the depth */
#define ROUNDING_32 12582912.0    /* 1.5 * 2^23: adding it times a quantum rounds to the quantum, which is the sum's last bit */
#define HALF 0.501                /* of a quantum; the rest is what float64 loses where all are alike */
#define SLACK 1e-9                /* of sigma, where one lies far from all others; row_sigma() loses less, too */
#define LARGEST (1 << 22)         /* quanta that a logit may have so that this holds */

/* How logits become integers: `centre` - logit / quantum. */
struct grid {
    double quantum, centre;
    double bottom; /* the least logit that has an integer */
};

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

/* The least power of two, of moderate size, that is not below `x`. */
static double power_of_two_from(double x) {
    uint64_t bits;
    double power;
    __builtin_memcpy(&bits, &x, sizeof bits);
    bits = (bits & 0x7FF0000000000000ull) + (bits << 12 ? 1ull << 52 : 0);
    __builtin_memcpy(&power, &bits, sizeof power);
    return power > 0x1p-100 ? power : 0x1p-100;
}

static struct grid grid_of(double max, double bottom) {
    double needed = (max - bottom) / (2 * MOST), largest = magnitude(max);
    largest = magnitude(bottom) > largest ? magnitude(bottom) : largest;
    double quantum = power_of_two_from(needed > largest / LARGEST ? needed : largest / LARGEST);
    double centre = __builtin_rint(max / quantum) - MOST;
    return (struct grid){quantum, centre, (centre - MOST) * quantum};
}

struct sums {
    double sum, squares, count;
};

/* Sums of some integers, lane by lane. */
struct part {
    v128_t sum, squares; /* int32 */
    v128_t masks;        /* int16: minus how many there are */
    v128_t lowest;       /* int16 */
};

struct converter {
    v128_t rounding, origin;
};

/* What is no number, -inf or below the bottom is above MOST; or far below -MOST, where a host leaves a NaN its sign. */
static inline v128_t integers(const v128_t *logits, const struct converter *by) {
    v128_t low = wasm_i32x4_sub(wasm_f32x4_sub(by->rounding, logits[0]), by->origin);
    v128_t high = wasm_i32x4_sub(wasm_f32x4_sub(by->rounding, logits[1]), by->origin);
    return wasm_i16x8_narrow_i32x4(low, high);
}

static inline v128_t squares_of(v128_t v) {
    return wasm_i32x4_dot_i16x8(v, v);
}

static inline v128_t pairs_of(v128_t v) {
    return wasm_i32x4_extadd_pairwise_i16x8(v);
}

#define OF_FOUR(add, a, b, c, d) add(add(a, b), add(c, d))

/* Volatile, as in survey.c: Cranelift would do all of a turn's sums behind all of its loads. */
static inline void sum_octets(const v128_t *logits, const struct converter *by, volatile struct part *out) {
    v128_t limit = wasm_i16x8_splat(MOST + 1);
    v128_t a = integers(logits, by), b = integers(logits + 2, by);
    v128_t c = integers(logits + 4, by), d = integers(logits + 6, by);
    v128_t is_a = wasm_i16x8_lt(a, limit), is_b = wasm_i16x8_lt(b, limit);
    v128_t is_c = wasm_i16x8_lt(c, limit), is_d = wasm_i16x8_lt(d, limit);
    a = wasm_v128_and(a, is_a);
    b = wasm_v128_and(b, is_b);
    c = wasm_v128_and(c, is_c);
    d = wasm_v128_and(d, is_d);
    out->masks = OF_FOUR(wasm_i16x8_add, is_a, is_b, is_c, is_d);
    out->lowest = OF_FOUR(wasm_i16x8_min, a, b, c, d);
    out->sum = OF_FOUR(wasm_i32x4_add, pairs_of(a), pairs_of(b), pairs_of(c), pairs_of(d));
    out->squares = OF_FOUR(wasm_i32x4_add, squares_of(a), squares_of(b), squares_of(c), squares_of(d));
}

/* Lane by lane over many turns; squares in int64. A lane has at most VOCAB_CAPACITY / 8 logits: 16 bits count them. */
struct totals {
    v128_t sum, squares, masks, lowest;
};

static inline void sum_turn(const float *logits, const struct converter *by, struct totals *totals) {
    static volatile struct part parts[PARTS];
    const v128_t *vectors = vectors_of(logits);
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < PARTS; i++)
        sum_octets(vectors + i * 2 * OCTETS, by, &parts[i]);
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < PARTS; i++) {
        v128_t squares = parts[i].squares;
        totals->squares = wasm_i64x2_add(totals->squares, wasm_u64x2_extend_low_u32x4(squares));
        totals->squares = wasm_i64x2_add(totals->squares, wasm_u64x2_extend_high_u32x4(squares));
        totals->sum = wasm_i32x4_add(totals->sum, parts[i].sum);
        totals->masks = wasm_i16x8_sub(totals->masks, parts[i].masks);
        totals->lowest = wasm_i16x8_min(totals->lowest, parts[i].lowest);
    }
}

/* Sums of integers, and whether all logits that are numbers had one. */
static struct sums sums_of(const struct totals *totals) {
    int32_t sum[4];
    int64_t squares[2];
    uint16_t counts[8];
    wasm_v128_store(sum, totals->sum);
    wasm_v128_store(squares, totals->squares);
    wasm_v128_store(counts, totals->masks);
    struct sums sums = {0, (double)(squares[0] + squares[1]), 0};
    for (uint32_t i = 0; i < 4; i++)
        sums.sum += sum[i];
    for (uint32_t i = 0; i < 8; i++)
        sums.count += counts[i];
    return sums;
}

static void add_one(double logit, const struct grid *grid, struct sums *sums) {
    double distance = grid->centre - logit / grid->quantum;
    if (!(logit > MINUS_INFINITY))
        return;
    sums->sum += distance;
    sums->squares += distance * distance;
    sums->count++;
}

static double lowest_of_sample(const struct row *row, double max) {
    double least = max;
    uint32_t step = row->count / SAMPLE;
    for (uint32_t i = 0; i < SAMPLE && step; i++) {
        float value = row->logits[i * step + i * 7 % step]; /* no fixed stride: logits may repeat at powers of two */
        least = value < least && value >= -__FLT_MAX__ ? value : least;
    }
    return least;
}

/* Sums of the whole turns; the others are added as they are. Whether every logit that counts is in the grid. */
static int sum_row(const struct row *row, const struct grid *grid, uint32_t numbers, struct sums *sums) {
    float rounding = (float)(ROUNDING_32 * grid->quantum);
    int32_t bits;
    __builtin_memcpy(&bits, &rounding, sizeof bits);
    struct converter by = {wasm_f32x4_splat(rounding), wasm_i32x4_splat(bits - (int32_t)grid->centre)};
    v128_t zero = wasm_i32x4_splat(0);
    struct totals totals = {zero, zero, zero, zero};
    for (uint32_t at = 0; row->count - at >= TURN; at += TURN)
        sum_turn(row->logits + at, &by, &totals);
    *sums = sums_of(&totals);
    int is_negative_nan = wasm_v128_any_true(wasm_i16x8_lt(totals.lowest, wasm_i16x8_splat(-MOST)));
    return !is_negative_nan && sums->count == numbers;
}

static double variance_of(const struct sums *sums) {
    double mean = sums->sum / sums->count, variance = sums->squares / sums->count - mean * mean;
    return variance > 0 ? variance : 0;
}

struct sigma_bounds row_sigma_bounds(const struct row *row, double max) {
    uint32_t whole = row->count & ~(TURN - 1), numbers = whole;
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        numbers -= row->adjusted[i].id < whole; /* their places hold -inf */
    double least = lowest_of_sample(row, max);
    struct grid grid = grid_of(max, least - (max - least) / 2);
    struct sums sums;
    if (!sum_row(row, &grid, numbers, &sums)) {
        struct extent extent = logits_extent(row->logits, whole); /* more at -inf, or one that lies deeper */
        if (extent.count)
            grid = grid_of(max, extent.least);
        if (!sum_row(row, &grid, extent.count, &sums)) {
            double sigma = row_sigma(row, max);
            return (struct sigma_bounds){sigma, sigma};
        }
    }
    for (uint32_t at = whole; at < row->count; at++)
        add_one(row->logits[at], &grid, &sums);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        add_one(row->adjusted[i].value, &grid, &sums);
    double sigma = grid.quantum * __builtin_sqrt(variance_of(&sums));
    double error = grid.quantum * HALF + sigma * SLACK;
    return (struct sigma_bounds){sigma > error ? sigma - error : 0, sigma + error};
}
