#include "ties.h"

#include <wasm_simd128.h>

#define LANES 4u
#define UNROLL 16u /* logits a turn, as in row.c */

static uint32_t count_some(const float *logits, uint32_t count, float value) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += logits[i] == value;
    return found;
}

static uint32_t count_turn(const float *logits, v128_t value) {
    v128_t counts = wasm_i32x4_splat(0);
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < UNROLL; i += LANES)
        counts = wasm_i32x4_sub(counts, wasm_f32x4_eq(wasm_v128_load(logits + i), value));
    counts = wasm_i32x4_add(counts, wasm_i32x4_shuffle(counts, counts, 2, 3, 0, 1));
    return (uint32_t)(wasm_i32x4_extract_lane(counts, 0) + wasm_i32x4_extract_lane(counts, 1));
}

uint32_t ties_count(const struct row *row, float value) {
    v128_t four = wasm_f32x4_splat(value);
    uint32_t at = 0, found = 0;
    for (; row->count - at >= UNROLL; at += UNROLL)
        found += count_turn(row->logits + at, four);
    return found + count_some(row->logits + at, row->count - at, value);
}

uint32_t ties_id(const struct row *row, float value, uint32_t index) {
    v128_t four = wasm_f32x4_splat(value);
    uint32_t at = 0;
    for (; row->count - at >= UNROLL; at += UNROLL) {
        uint32_t found = count_turn(row->logits + at, four);
        if (found > index)
            break;
        index -= found;
    }
    for (;; at++)
        if (row->logits[at] == value && !index--)
            return at;
}
