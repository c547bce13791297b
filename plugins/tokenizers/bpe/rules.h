/* What the names in tokenizer.ggml.pre mean: one after another, the steps that split a text into pieces.
 *
 * Each is the pre-tokenizer of the model's publisher (tokenizer.json), step by step:
 *
 *   gpt-2           GPT2
 *   smollm          every \p{N} alone, then GPT2
 *   llama-bpe, dbrx CL100K with \p{N}{1,3}; only llama-bpe takes whole pieces
 *   qwen2           CL100K with \p{N}
 *   qwen35          CL100K with \p{N}, and \p{M} counted among the letters
 *   tekken          O200K with \p{N}
 *   gpt-4o          O200K with \p{N}{1,3} and contractions
 *   deepseek-llm    [\r\n] ; \s?[listed letters]+ ; \s?[listed punctuation]+ ; \s+$ ; [CJK]+ ; every \p{N} alone
 *   deepseek-coder  [\r\n] ; \s?\p{L}+ ; \s?\p{P}+ ; [CJK]+ ; every \p{N} alone
 *   falcon          runs of punctuation ; GPT2 ; runs of bytes that spell numbers in GPT-2's alphabet ; [0-9][0-9][0-9]
 *   default         runs of \p{P} and $+<=>^~| ; GPT2 ; runs of \p{N} ; [0-9][0-9][0-9] (llama.cpp's, for files without a rule)
 *   gemma4          runs of line feeds ; words, where the vocabulary lets none of its tokens cross
 *
 *   GPT2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   CL100K  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *           |\s+(?!\S)|\s+
 *   O200K   [^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *           with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and W = [\p{Ll}\p{Lm}\p{Lo}\p{M}]
 */
#ifndef RULES_H
#define RULES_H

#include <stdint.h>

#include "stream.h"

#define MOST_STEPS 6u

enum step_kind {
    STEP_NONE,         /* no further step */
    STEP_GPT2,         /* the pattern above */
    STEP_CL100K,       /* the pattern above; `set` counts as letters, `most` numbers together */
    STEP_O200K,        /* the pattern above; `most` numbers together; `set`: contractions too */
    STEP_RUNS,         /* runs of characters of `set`, and what lies between */
    STEP_EACH,         /* each character of `set` alone, and what lies between */
    STEP_SPACED_RUNS,  /* as RUNS, with one white space before the run if there is one */
    STEP_TRAILING,     /* the white space at the end */
    STEP_NUMBER_BYTES, /* runs of bytes that GPT-2's alphabet spells as numbers, and what lies between */
    STEP_TRIPLES,      /* each three ASCII digits in a row, and what lies between */
    STEP_WORDS,        /* blanks.h */
};

/* Sets of characters: classes of unicode.h, and these. */
enum char_set {
    SET_LINE_BREAKS = 1 << 10,  /* \r \n */
    SET_LINE_FEED = 1 << 11,    /* \n */
    SET_CJK = 1 << 12,          /* the ranges that DeepSeek's publisher takes for Chinese, Japanese and Korean */
    SET_LISTED_PUNCT = 1 << 13, /* the punctuation that deepseek-llm's publisher lists */
    SET_MATHS = 1 << 14,        /* $ + < = > ^ ~ | */
};

struct step {
    uint8_t kind; /* enum step_kind */
    uint8_t most;
    uint16_t set; /* enum char_class and enum char_set */
};

struct rule {
    const char *names; /* separated by spaces */
    int whole_pieces;  /* a piece that is a token is not merged (the publisher's ignore_merges) */
    struct step steps[MOST_STEPS];
};

/* The rule of the loaded vocabulary. */
extern const struct rule *rule;

/* Finds the rule of that name, 0: there is none. */
const struct rule *rules_find(struct section name);

/* Whether a piece that is a token becomes it without merging. */
int rules_take_whole(const uint8_t *piece, uint32_t length);

#endif
