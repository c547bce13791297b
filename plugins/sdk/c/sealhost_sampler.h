/* The part of a sampler that all samplers share: its areas, its layout, and the walk over the rows of a step.
 *
 * Include it in the one file of your sampler, export `init` and `reset` there, and write `sample`, which is called for
 * every row that wants an answer:
 *
 *     #include "sealhost_sampler.h"
 *     static int32_t sample(void) {
 *         ...                                 // row->..., logits[], history[], bias[], config[]
 *         return answer(SEALHOST_TOKEN, id);  // or answer_mask(), answer_sparse(n), fast_forward(n), backtrack(off, n)
 *     }
 *
 * What you may define before the include:
 *
 *     SEALHOST_TIER_MASK           tier = "mask": there are no logits, you answer before they exist
 *     SEALHOST_CANDIDATES 40       tier = "topk:40": candidates[row->candidate_count] instead of logits
 *     SEALHOST_ROWS 4              slots; with 1, a request with n > 1 gets n instances
 *     SEALHOST_MAX_BACKTRACK 8     ids that one answer may take back
 *     SEALHOST_VOCABULARY 8388608  bytes of room for the tokens' texts, so that you may ask token_text(id, &length)
 *     SEALHOST_SLOT_STATE          you keep something for each slot, and write `began`, `forked` and `ended`
 *     SEALHOST_VOCAB, _HISTORY, _BIASES, _CONFIG, _ANSWER   other capacities; room that nobody uses costs no memory
 *
 * Clause numbers are those of plugins/README.md.
 */
#ifndef SEALHOST_SAMPLER_H
#define SEALHOST_SAMPLER_H

#define SEALHOST_ERROR_AREA
#include "sealhost_guest.h"

#ifndef SEALHOST_ROWS
#define SEALHOST_ROWS 1u
#endif
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
#ifndef SEALHOST_ANSWER
#define SEALHOST_ANSWER (SEALHOST_VOCAB / 32u * 4u) /* bytes of a slot's answer area: a mask over all ids */
#endif
#ifndef SEALHOST_MAX_BACKTRACK
#define SEALHOST_MAX_BACKTRACK 0u
#endif

_Static_assert(SEALHOST_VOCAB % 1024 == 0, "a row of logits is whole pages of 4096 bytes (clause 1.5)");

/* ---- what `sample` sees: the row at hand, and what belongs to its slot ------------------------------------------ */

static const struct sealhost_row *row;
static const uint32_t *history; /* row->history_length ids: prompt, then generated */
static struct sealhost_bias bias[SEALHOST_BIASES];
static uint8_t config[SEALHOST_CONFIG];
static uint32_t *answer_words; /* the slot's answer area: mask or ids */

#if defined(SEALHOST_CANDIDATES)
static struct sealhost_candidate sealhost_candidates[SEALHOST_ROWS][SEALHOST_CANDIDATES];
static struct sealhost_candidate *candidates; /* row->candidate_count of them, best first; change them to answer EDITED */
#elif !defined(SEALHOST_TIER_MASK)
static float sealhost_logits[SEALHOST_ROWS][SEALHOST_VOCAB] __attribute__((aligned(4096)));
static float *logits; /* row->vocab_size; write to them only to answer EDITED (clause 2.9) */
#endif

/* In one piece, so that an instance writes one page where it would write several: the layout is part of the snapshot, and
 * the others are written in each request, of the history a short prompt. */
static struct {
    struct sealhost_sampler_layout published;
    struct sealhost_row rows[SEALHOST_ROWS];
    struct sealhost_result results[SEALHOST_ROWS];
    uint32_t history[SEALHOST_ROWS][SEALHOST_HISTORY];
} sealhost_shared __attribute__((aligned(4096)));
static struct sealhost_result *sealhost_result;
static uint32_t sealhost_answers[SEALHOST_ROWS][SEALHOST_ANSWER / 4u];
static struct sealhost_log sealhost_log;

/* ---- yours ---------------------------------------------------------------------------------------------------- */

static int32_t sample(void);
#ifdef SEALHOST_SLOT_STATE
static void began(uint32_t slot);                   /* row->flags has NEW: the slot's state starts from nothing */
static void forked(uint32_t slot, uint32_t parent); /* the slot's state starts as a copy of the parent's */
static void ended(uint32_t slot);
#endif

/* ---- answers, for `return ...` ---------------------------------------------------------------------------------- */

static inline int32_t sealhost_answer(uint32_t action, uint32_t token, uint32_t count) {
    *sealhost_result =
        (struct sealhost_result){.size = sizeof *sealhost_result, .action = action, .token = token, .count = count};
    return SEALHOST_OK;
}

/* TOKEN, PASS, EDITED or STOP; `token` counts for TOKEN alone. */
static inline int32_t answer(uint32_t action, uint32_t token) {
    return sealhost_answer(action, token, 0);
}

/* A mask: allow_none(), then allow(id) for each, then answer_mask(). */
static inline void allow_none(void) {
    clear_bytes(answer_words, (row->vocab_size + 31) / 32 * 4);
}

static inline void allow(uint32_t id) {
    answer_words[id / 32] |= 1u << (id % 32);
}

static inline int32_t answer_mask(void) {
    return sealhost_answer(SEALHOST_MASK, 0, 0);
}

/* Biases that the host adds: add_bias(0, id, value), add_bias(1, ...), then answer_sparse(their number). */
static inline void add_bias(uint32_t index, uint32_t id, float value) {
    ((struct sealhost_bias *)answer_words)[index] = (struct sealhost_bias){id, value};
}

static inline int32_t answer_sparse(uint32_t count) {
    return sealhost_answer(SEALHOST_SPARSE, 0, count);
}

/* Ids from answer_words[0 .. count - 1]. */
static inline int32_t fast_forward(uint32_t count) {
    return sealhost_answer(SEALHOST_FAST_FORWARD, 0, count);
}

/* Takes `off` ids back, at most row->backtrack_room, and appends ids from answer_words[0 .. count - 1]. */
static inline int32_t backtrack(uint32_t off, uint32_t count) {
    return sealhost_answer(SEALHOST_BACKTRACK, off, count);
}

/* ---- what else is of use ---------------------------------------------------------------------------------------- */

/* Text for you, in the log ring (clause 2.15). */
static inline void log_text(const char *text) {
    for (; *text; text++)
        sealhost_log.bytes[sealhost_log.written++ % SEALHOST_LOG_BYTES] = (uint8_t)*text;
}

static inline void log_number(uint32_t number) {
    char digits[11];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    log_text(digits + at);
}

/* The uniform number of this row's draw, in [0, 1): the same for the same seed, choice and position (clause 2.4). */
static inline double uniform(void) {
    return (double)(row->random[0] >> 11) * 0x1p-53;
}

#ifdef SEALHOST_VOCABULARY
static union {
    struct sealhost_token_table table; /* tokens.table.count, .eos, ...: there from init() on */
    uint8_t bytes[SEALHOST_VOCABULARY];
} tokens __attribute__((aligned(8)));

/* The bytes that an id below tokens.table.count spells; control tokens spell none. */
static inline const uint8_t *token_text(uint32_t id, uint32_t *length) {
    const uint32_t *offsets = (const uint32_t *)(const void *)(tokens.bytes + tokens.table.offsets);
    *length = offsets[id + 1] - offsets[id];
    return tokens.bytes + tokens.table.bytes + offsets[id];
}

static inline uint32_t token_type(uint32_t id) {
    uint8_t type = tokens.bytes[tokens.table.types + id];
    return type ? type : SEALHOST_TYPE_NORMAL;
}

SEALHOST_EXPORT(vocabulary) int32_t vocabulary(uint32_t size) {
    return size <= sizeof tokens ? (int32_t)sealhost_offset(&tokens) : 0;
}
#endif

/* ---- exports ---------------------------------------------------------------------------------------------------- */

SEALHOST_EXPORT(sealhost_sampler_v1) int32_t sealhost_sampler_v1(void) {
    return SEALHOST_ABI_MINOR;
}

SEALHOST_EXPORT(layout) int32_t layout(void) {
    sealhost_shared.published = (struct sealhost_sampler_layout){
        .size = sizeof sealhost_shared.published,
        .minor = SEALHOST_ABI_MINOR,
        .max_rows = SEALHOST_ROWS,
        .vocab_capacity = SEALHOST_VOCAB,
#if defined(SEALHOST_CANDIDATES)
        .candidates = sealhost_offset(sealhost_candidates),
        .candidate_capacity = SEALHOST_CANDIDATES,
#elif !defined(SEALHOST_TIER_MASK)
        .logits = sealhost_offset(sealhost_logits),
        .logits_stride = sizeof sealhost_logits[0],
#endif
        .rows = sealhost_offset(sealhost_shared.rows),
        .results = sealhost_offset(sealhost_shared.results),
        .history = sealhost_offset(sealhost_shared.history),
        .history_capacity = SEALHOST_HISTORY,
        .bias = sealhost_offset(bias),
        .bias_capacity = SEALHOST_BIASES,
        .config = sealhost_offset(config),
        .config_capacity = SEALHOST_CONFIG,
        .error = sealhost_offset(sealhost_error_area),
        .error_capacity = SEALHOST_ERROR_BYTES,
        .answer = sealhost_offset(sealhost_answers),
        .answer_capacity = sizeof sealhost_answers[0],
        .log = sealhost_offset(&sealhost_log),
        .max_backtrack = SEALHOST_MAX_BACKTRACK,
    };
    return (int32_t)sealhost_offset(&sealhost_shared.published);
}

/* Whether the row at hand stays within the areas; a host that follows the ABI never asks for more. */
static inline int sealhost_row_fits(void) {
    return row->size >= sizeof *row && row->slot < SEALHOST_ROWS && row->vocab_size <= SEALHOST_VOCAB &&
           row->prompt_length <= row->history_length && row->history_length <= SEALHOST_HISTORY &&
           row->bias_count <= SEALHOST_BIASES && row->config_length <= SEALHOST_CONFIG
#ifdef SEALHOST_CANDIDATES
           && row->candidate_count <= SEALHOST_CANDIDATES
#endif
        ;
}

static inline void sealhost_tell(void) {
#ifdef SEALHOST_SLOT_STATE
    if (row->flags & SEALHOST_ROW_NEW)
        began(row->slot);
    if (row->flags & SEALHOST_ROW_FORK)
        forked(row->slot, row->parent);
    if (row->flags & SEALHOST_ROW_CLOSE)
        ended(row->slot);
#endif
}

SEALHOST_EXPORT(step) int32_t step(uint32_t rows) {
    for (uint32_t i = 0; i < rows; i++) {
        row = &sealhost_shared.rows[i < SEALHOST_ROWS ? i : 0];
        if (rows > SEALHOST_ROWS || !sealhost_row_fits())
            return fail(SEALHOST_ERROR_CAPACITY, "step: expected rows within this sampler's capacities");
        sealhost_result = &sealhost_shared.results[i];
        history = sealhost_shared.history[row->slot];
        answer_words = sealhost_answers[row->slot];
#if defined(SEALHOST_CANDIDATES)
        candidates = sealhost_candidates[row->slot];
#elif !defined(SEALHOST_TIER_MASK)
        logits = sealhost_logits[row->slot];
#endif
        sealhost_tell();
        int32_t status = row->flags & SEALHOST_ROW_SAMPLE ? sample() : SEALHOST_OK;
        if (status)
            return status;
    }
    return SEALHOST_OK;
}

#endif /* SEALHOST_SAMPLER_H */
