/* e^x for weights of at most 1, without a maths library.
 *
 * x = (n + j / 256) ln 2 + y with |y| <= ln 2 / 512: e^x = 2^n * TABLE[j] * (1 + y + y^2 / 2 + y^3 / 6).
 * Few float operations on purpose: under NaN canonicalisation each costs a host three instructions more.
 *
 *   exponential()  two float64: relative error <= 5e-13 for x in [EXPONENTIAL_LEAST, 0]
 *   rough()        four at once, mostly in integers: relative error <= 1.2e-4, and what rounding the argument adds
 */
#ifndef EXPONENTIAL_H
#define EXPONENTIAL_H

#include <stdint.h>
#include <wasm_simd128.h>

/* Below it the answer is 0: e^-700 is 1e-304, and nothing that small changes a sum that holds a 1. */
#define EXPONENTIAL_LEAST (-700.0)
#define ROUGH_LEAST (-60.0)

#define LN2 0.69314718055994530942
#define TABLE_STEPS 256
#define TABLE_BITS 8

/* Adding it rounds to an integer, whose two's complement is then the sum's low bits. */
#define ROUNDING_64 6755399441055744.0 /* 1.5 * 2^52 */
#define ROUNDING_32 12582912.0         /* 1.5 * 2^23 */

/* 2^(j / 256). */
extern const double exponential_table[TABLE_STEPS];

/* Table entries for two rounded arguments. */
static inline v128_t table_entries(v128_t rounded) {
    uint32_t low = (uint32_t)wasm_i32x4_extract_lane(rounded, 0) & (TABLE_STEPS - 1);
    uint32_t high = (uint32_t)wasm_i32x4_extract_lane(rounded, 2) & (TABLE_STEPS - 1);
    return wasm_v128_load64_lane(&exponential_table[high], wasm_v128_load64_zero(&exponential_table[low]), 1);
}

/* Arguments <= 0; NaN and what lies below EXPONENTIAL_LEAST gives 0. */
static inline v128_t exponential(v128_t x) {
    v128_t steps = wasm_f64x2_mul(x, wasm_f64x2_splat(TABLE_STEPS / LN2));
    v128_t rounded = wasm_f64x2_add(steps, wasm_f64x2_splat(ROUNDING_64));
    v128_t rest = wasm_f64x2_sub(steps, wasm_f64x2_sub(rounded, wasm_f64x2_splat(ROUNDING_64)));
    v128_t y = wasm_f64x2_mul(rest, wasm_f64x2_splat(LN2 / TABLE_STEPS));
    v128_t sum = wasm_f64x2_add(wasm_f64x2_mul(y, wasm_f64x2_splat(1.0 / 6)), wasm_f64x2_splat(0.5));
    sum = wasm_f64x2_add(wasm_f64x2_mul(sum, y), wasm_f64x2_splat(1));
    sum = wasm_f64x2_add(wasm_f64x2_mul(sum, y), wasm_f64x2_splat(1));
    v128_t exponent = wasm_i64x2_shl(wasm_i64x2_shr(rounded, TABLE_BITS), 52);
    v128_t scaled = wasm_i64x2_add(wasm_f64x2_mul(sum, table_entries(rounded)), exponent);
    return wasm_v128_and(scaled, wasm_f64x2_ge(x, wasm_f64x2_splat(EXPONENTIAL_LEAST)));
}

/* Twice 2^x, for four x in [-88, 0] as fixed-point numbers with ROUGH_BITS of fraction: the float32
 * ROUNDING_32 + x * 2^ROUGH_BITS, whose low bits they are. Anything else gives garbage, which the caller masks.
 * 2^f - 1 = f (a + f (b + f c)) on [0, 1), with 14 bits; the lanes' upper halves are 0, so a dot product is a product.
 */
#define ROUGH_BITS 15
static inline v128_t rough_doubled(v128_t fixed) {
    v128_t f = wasm_v128_and(fixed, wasm_i32x4_splat((1 << ROUGH_BITS) - 1));
    v128_t sum = wasm_i32x4_shr(wasm_i32x4_dot_i16x8(f, wasm_i32x4_splat(1262)), ROUGH_BITS);
    sum = wasm_i32x4_add(sum, wasm_i32x4_splat(3732));
    sum = wasm_i32x4_shr(wasm_i32x4_dot_i16x8(f, sum), ROUGH_BITS);
    sum = wasm_i32x4_add(sum, wasm_i32x4_splat(11388));
    v128_t mantissa = wasm_i32x4_shr(wasm_i32x4_dot_i16x8(f, sum), 14 + ROUGH_BITS - 23);
    return wasm_i32x4_add(mantissa, wasm_i32x4_shl(wasm_u32x4_shr(fixed, ROUGH_BITS), 23));
}

#endif
