/* What one pass over a row tells: its best logit, and upper bounds by which later passes leave most of it out.
 *
 * Of every 128 logits a crest is kept, of every 512 a summit: the largest of each lane, that is, of every fourth logit. A
 * model's best few hundred candidates lie in as many crests, so whoever looks for them reads a fraction of the row; and as
 * each of the n largest summits or crests is a logit, the n-th of them is a threshold that n candidates reach and not many
 * more do.
 *
 * There is one survey at a time, that of the row for which row_best() was called last. Logits that have left the row
 * since (adjust.h) leave bounds that are still true.
 */
#ifndef SURVEY_H
#define SURVEY_H

#include <wasm_simd128.h>

#include "row.h"

#define LANES 4u
#define GROUP 8u   /* vectors that are loaded before they are compared: more would go through the stack */
#define CREST 128u /* logits of a crest; of fewer there would be more pages for each session's first step to touch */
#define BLOCK 512u /* logits of a summit, and of a turn: each turn of a loop pays an epoch check and spills around it */

static inline const v128_t *vectors_of(const float *logits) {
    __asm__("" : "+r"(logits)); /* else LLVM's strength reduction makes an addition of every load's offset */
    return (const v128_t *)(const void *)logits;
}

/* Whether any of a group is at least `least`. */
static inline int any_at_least(const v128_t *group, v128_t least) {
    v128_t any = wasm_f32x4_ge(group[0], least);
#pragma clang loop unroll(full)
    for (uint32_t i = 1; i < GROUP; i++)
        any = wasm_v128_or(any, wasm_f32x4_ge(group[i], least));
    return wasm_v128_any_true(any);
}

/* Takes the survey: the best of a row's logits, adjusted ones aside. */
struct candidate survey_take(const float *logits, uint32_t count);

/* Of the whole blocks of the row, the next one from `at` on that holds a logit of at least `least`; their end: none. */
uint32_t survey_next(uint32_t at, uint32_t count, float least);

/* Bit i: the block's i-th crest is at least `least`. */
uint32_t survey_crests(uint32_t block, float least);

/* A logit that at least `wanted` candidates reach, if none has left the row, and that not many more do; -inf: all do. */
float survey_threshold(uint32_t count, uint32_t wanted);

#endif
