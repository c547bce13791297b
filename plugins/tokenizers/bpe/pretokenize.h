/* Splits a text into the pieces inside which BPE may merge.
 *
 * Each kind is a regular expression of the model's publisher, written out as a scanner over code points:
 *
 *   gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   smollm     every \p{N} alone, then gpt-2 on each stretch between them
 *   llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *              |\s+(?!\S)|\s+
 *   qwen2      llama-bpe with \p{N} alone
 *
 * A scan of n bytes looks at each of them a fixed number of times, so its time is linear in n.
 */
#ifndef PRETOKENIZE_H
#define PRETOKENIZE_H

#include <stdint.h>

enum pre_kind { PRE_UNKNOWN, PRE_GPT2, PRE_SMOLLM, PRE_LLAMA_BPE, PRE_QWEN2 };

/* The kind that GGUF's tokenizer.ggml.pre names; PRE_UNKNOWN when this guest has none of that name. */
enum pre_kind pre_kind_of(const uint8_t *name, uint32_t length);

/* State of a scan over [at, end); `at` moves on with each piece. */
struct scan {
    enum pre_kind kind;
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *stretch_end; /* smollm: where the stretch without numbers ends; 0 before the first piece */
};

/* End of the piece that starts at scan->at, which must be below scan->end; moves scan->at there. */
const uint8_t *next_piece(struct scan *scan);

#endif
