/* The part of a sampler that all samplers share: its areas, its layout, and the checks of a step.
 *
 * Include it in the one file of your sampler, and export `init`, `step` and `reset` there:
 *
 *     #include "sealhost_sampler.h"
 *     SEALHOST_EXPORT(step) int32_t step(uint32_t rows) {
 *         if (!step_fits(rows))
 *             return fail(SEALHOST_ERROR_CAPACITY, "step: more than this sampler has room for");
 *         ...                                 // row, logits[], history[], bias[], config[]
 *         return answer(SEALHOST_TOKEN, id);
 *     }
 *
 * Define a capacity before the include to have another one. Room that no request uses costs no memory.
 * Clause numbers are those of plugins/README.md.
 */
#ifndef SEALHOST_SAMPLER_H
#define SEALHOST_SAMPLER_H

#define SEALHOST_ERROR_AREA
#include "sealhost_guest.h"

#ifndef SEALHOST_VOCAB
#define SEALHOST_VOCAB 263168u /* logits of the largest model; a row is whole pages: 257 * 4096 bytes */
#endif
#ifndef SEALHOST_HISTORY
#define SEALHOST_HISTORY 131072u /* ids of the longest context */
#endif
#ifndef SEALHOST_BIASES
#define SEALHOST_BIASES 1024u /* OpenAI's API allows 300 */
#endif
#ifndef SEALHOST_CONFIG
#define SEALHOST_CONFIG 16384u /* bytes; the most that the ABI allows */
#endif

_Static_assert(SEALHOST_VOCAB % 1024 == 0, "a row of logits is whole pages of 4096 bytes (clause 1.5)");

/* Logits are the row's own until step() returns; write to them only to answer EDITED (clause 2.9). */
static float logits[SEALHOST_VOCAB] __attribute__((aligned(4096)));
static struct sealhost_row row __attribute__((aligned(8)));
static struct sealhost_result result __attribute__((aligned(8)));
static uint32_t history[SEALHOST_HISTORY];
static struct sealhost_bias bias[SEALHOST_BIASES];
static uint8_t config[SEALHOST_CONFIG];
static struct sealhost_sampler_layout sealhost_published;

SEALHOST_EXPORT(sealhost_sampler_v1) int32_t sealhost_sampler_v1(void) {
    return SEALHOST_ABI_MINOR;
}

SEALHOST_EXPORT(layout) int32_t layout(void) {
    sealhost_published = (struct sealhost_sampler_layout){
        .size = sizeof sealhost_published,
        .minor = SEALHOST_ABI_MINOR,
        .max_rows = 1,
        .vocab_capacity = SEALHOST_VOCAB,
        .logits = sealhost_offset(logits),
        .logits_stride = sizeof logits,
        .rows = sealhost_offset(&row),
        .results = sealhost_offset(&result),
        .history = sealhost_offset(history),
        .history_capacity = SEALHOST_HISTORY,
        .bias = sealhost_offset(bias),
        .bias_capacity = SEALHOST_BIASES,
        .config = sealhost_offset(config),
        .config_capacity = SEALHOST_CONFIG,
        .error = sealhost_offset(sealhost_error_area),
        .error_capacity = SEALHOST_ERROR_BYTES,
    };
    return (int32_t)sealhost_offset(&sealhost_published);
}

/* Whether a step stays within the areas; a host that follows the ABI never asks for more. */
static inline int step_fits(uint32_t rows) {
    return rows == 1 && row.size >= sizeof row && row.vocab_size <= SEALHOST_VOCAB &&
           row.prompt_length <= row.history_length && row.history_length <= SEALHOST_HISTORY &&
           row.bias_count <= SEALHOST_BIASES && row.config_length <= SEALHOST_CONFIG;
}

/* The answer of this step, for `return answer(...)`. `token` counts for SEALHOST_TOKEN alone. */
static inline int32_t answer(uint32_t action, uint32_t token) {
    result = (struct sealhost_result){.size = sizeof result, .action = action, .token = token};
    return SEALHOST_OK;
}

/* The uniform number of this step's draw, in [0, 1): the same for the same seed, choice and position (clause 2.4). */
static inline double uniform(void) {
    return (double)(row.random[0] >> 11) * 0x1p-53;
}

#endif /* SEALHOST_SAMPLER_H */
