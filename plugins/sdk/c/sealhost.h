/* sealhost plugin ABI, version 1.
 *
 * A plugin is a core WebAssembly module with zero imports, no start function and one memory, exported as
 * "memory", whose minimum equals its maximum. Host and guest share that memory and nothing else.
 *
 * All integers are little-endian. Every struct starts with its own size in bytes, so that a later minor
 * version can append fields. The guest publishes one layout struct; the host checks each offset in it
 * (bounds, alignment, no overlap), copies it once and never reads it again.
 *
 * Clause numbers (1.1 ...) are those of plugins/README.md.
 */
#ifndef SEALHOST_H
#define SEALHOST_H

#include <stdint.h>

#define SEALHOST_ABI_MINOR 0

/* Marks a function as one of the module's exports. */
#define SEALHOST_EXPORT(name) __attribute__((export_name(#name), visibility("default")))

/* ---- status codes, shared by all calls ------------------------------------------------------------ */
enum {
    SEALHOST_OK = 0,
    /* Errors lie at or below SEALHOST_ERROR, so that encode() can also answer "-needed". The guest puts a
     * UTF-8 sentence into its error area before it returns one; the host shows it escaped. */
    SEALHOST_ERROR = -0x40000000,               /* unspecified: see the error text */
    SEALHOST_ERROR_CONFIG = -0x40000001,        /* the opaque config is not acceptable */
    SEALHOST_ERROR_UNSUPPORTED = -0x40000002,   /* a known request that this guest does not serve */
    SEALHOST_ERROR_INPUT = -0x40000003,         /* malformed input (vocabulary stream, text) */
    SEALHOST_ERROR_CAPACITY = -0x40000004,      /* the guest's fixed memory is too small for it */
    SEALHOST_ERROR_EMPTY = -0x40000005,         /* no token can be drawn: all masked, or no number among the logits */
};

/* ---- sampler ---------------------------------------------------------------------------------------
 * exports: sealhost_sampler_v1() -> minor, layout() -> offset, init() -> status,
 *          step(rows) -> status, reset() -> status
 * Order: sealhost_sampler_v1, init, layout, then step for every token. A fresh instance serves each
 * request; reset() returns an instance to its state after init().
 */
struct sealhost_sampler_layout {
    uint32_t size;             /* sizeof(struct sealhost_sampler_layout) */
    uint32_t minor;            /* SEALHOST_ABI_MINOR that the guest was built with */
    uint32_t max_rows;         /* rows that one step can hold, 1..64 */
    uint32_t vocab_capacity;   /* logits that one row can hold */
    uint32_t logits;           /* float32[max_rows][logits_stride / 4]; 4096-aligned */
    uint32_t logits_stride;    /* bytes from one row of logits to the next; a multiple of 4096 */
    uint32_t rows;             /* struct sealhost_row[max_rows]; 8-aligned */
    uint32_t results;          /* struct sealhost_result[max_rows]; 8-aligned */
    uint32_t history;          /* uint32[max_rows][history_capacity]; 4-aligned: prompt ids, then generated ids */
    uint32_t history_capacity; /* ids that one row can hold */
    uint32_t bias;             /* struct sealhost_bias[max_rows][bias_capacity]; 4-aligned */
    uint32_t bias_capacity;    /* entries that one row can hold */
    uint32_t config;           /* opaque bytes, JSON by convention, written once before the first step */
    uint32_t config_capacity;  /* bytes, at most 16384 */
    uint32_t error;            /* UTF-8 text of the last error, NUL-terminated */
    uint32_t error_capacity;   /* bytes, at least 64, at most 4096 */
};

enum { /* sealhost_row.flags */
    SEALHOST_ROW_NEW = 1,    /* first step of this slot: the history holds the prompt only */
    SEALHOST_ROW_ACCEPT = 2, /* the previous answer stands: its id has been appended to the history */
    SEALHOST_ROW_SAMPLE = 4, /* an answer is wanted */
};

/* Written by the host before each step. Parameters that a guest does not use it ignores. */
struct sealhost_row {
    uint32_t size;               /* sizeof(struct sealhost_row) */
    uint32_t slot;               /* stable name of the choice that this row continues */
    uint32_t flags;              /* SEALHOST_ROW_* */
    uint32_t vocab_size;         /* logits that are valid in this row */
    uint64_t random[2];          /* fresh for every step, a function of (seed, choice, position) only */
    uint32_t prompt_length;      /* ids of the history that came from the prompt */
    uint32_t history_length;     /* ids of the history in all: prompt + generated */
    uint32_t bias_count;         /* entries of this row's bias list */
    uint32_t config_length;      /* bytes of config; the same in every row */
    float temperature;           /* 0: greedy */
    int32_t top_k;               /* <= 0 or >= vocab_size: off */
    float top_p;                 /* (0, 1]; 1: off */
    float min_p;                 /* [0, 1]; 0: off */
    float repetition_penalty;    /* > 0; 1: off; sees prompt and generated ids */
    float presence_penalty;      /* 0: off; sees generated ids only */
    float frequency_penalty;     /* 0: off; sees generated ids only */
    uint32_t reserved;           /* 0 */
};

struct sealhost_bias {
    uint32_t id;
    float bias; /* added to the logit; -inf forbids the id */
};

enum { /* sealhost_result.action */
    SEALHOST_TOKEN = 1,        /* the id in `token` */
    SEALHOST_PASS = 2,         /* the host samples from the logits as they came, with the row's parameters */
    SEALHOST_EDITED = 3,       /* the guest changed the logits in place; the host samples from them */
    SEALHOST_MASK = 4,         /* reserved for the mask tier */
    SEALHOST_SPARSE = 5,       /* reserved for the mask tier */
    SEALHOST_STOP = 6,         /* end this choice here */
    SEALHOST_BACKTRACK = 7,    /* reserved */
    SEALHOST_FAST_FORWARD = 8, /* reserved */
};

/* Written by the guest in each step for every row that carries SEALHOST_ROW_SAMPLE. */
struct sealhost_result {
    uint32_t size;   /* sizeof(struct sealhost_result) */
    uint32_t action; /* SEALHOST_TOKEN ... */
    uint32_t token;  /* for SEALHOST_TOKEN: id < vocab_size */
    uint32_t reserved;
};

/* ---- tokenizer -------------------------------------------------------------------------------------
 * exports: sealhost_tokenizer_v1() -> minor, layout() -> offset, load(length, final) -> status,
 *          encode(length, flags) -> n or -needed or error, token_bytes(first, count) -> n or -needed or error
 * Order: sealhost_tokenizer_v1, layout, load until final = 1, then encode and token_bytes. The host takes a
 * snapshot after the last load, and each request runs in a fresh copy of it.
 */
struct sealhost_tokenizer_layout {
    uint32_t size;            /* sizeof(struct sealhost_tokenizer_layout) */
    uint32_t minor;           /* SEALHOST_ABI_MINOR that the guest was built with */
    uint32_t input;           /* bytes from the host: a piece of the vocabulary stream, or UTF-8 text; 8-aligned */
    uint32_t input_capacity;  /* bytes, at least 4096 */
    uint32_t output;          /* answers: uint32 ids, or the table of token_bytes; 8-aligned */
    uint32_t output_capacity; /* bytes, at least 4096 */
    uint32_t error;           /* UTF-8 text of the last error, NUL-terminated */
    uint32_t error_capacity;  /* bytes, at least 64, at most 4096 */
};

/* The ids' bytes, joined, spell the text. Only a byte for which the vocabulary has no token is left out, as other
 * tokenizers of such vocabularies do (clause 3.3). "-needed" counts ids in encode() and bytes in token_bytes(). */
enum { /* flags of encode() */
    SEALHOST_ADD_SPECIAL = 1,   /* add BOS / EOS as the vocabulary's flags say */
    SEALHOST_PARSE_SPECIAL = 2, /* control and user-defined tokens spelled in the text become their ids;
                                   without it only user-defined (never control) tokens do */
};

/* The vocabulary stream: load() receives it in pieces of any size up to input_capacity. It is a sequence of
 * sections { uint32 tag; uint32 length; uint8 payload[length]; }, unaligned, in ascending order of tag.
 * Columns are packed arrays of `count` elements; an offsets column has count + 1 entries. */
enum {
    SEALHOST_VOCAB_MODEL = 1,  /* ASCII: GGUF's tokenizer.ggml.model, e.g. "gpt2" */
    SEALHOST_VOCAB_PRE = 2,    /* ASCII: GGUF's tokenizer.ggml.pre, e.g. "smollm" */
    SEALHOST_VOCAB_FLAGS = 3,  /* struct sealhost_vocab_flags */
    SEALHOST_VOCAB_TOKENS = 4, /* uint32 count; uint8 types[count]; float32 scores[count]; uint32 offsets[count + 1];
                                  uint8 bytes[offsets[count]]: the token texts as the GGUF spells them */
    SEALHOST_VOCAB_MERGES = 5, /* uint32 count; uint32 offsets[count + 1]; uint8 bytes[]: "left right", best first */
};

struct sealhost_vocab_flags {
    uint32_t bits; /* SEALHOST_VOCAB_ADD_* */
    int32_t bos;   /* token id, -1: none */
    int32_t eos;
    int32_t unknown;
};

enum {
    SEALHOST_VOCAB_ADD_BOS = 1,
    SEALHOST_VOCAB_ADD_EOS = 2,
    SEALHOST_VOCAB_ADD_SPACE_PREFIX = 4,
};

enum { /* types column, as in GGUF */
    SEALHOST_TYPE_NORMAL = 1,
    SEALHOST_TYPE_UNKNOWN = 2,
    SEALHOST_TYPE_CONTROL = 3,
    SEALHOST_TYPE_USER_DEFINED = 4,
    SEALHOST_TYPE_UNUSED = 5,
    SEALHOST_TYPE_BYTE = 6,
};

/* token_bytes(first, count) fills the output area with uint32 lengths[count], then the bytes of the ids
 * first .. first + count - 1 one after another, and returns the bytes written. Control tokens have length 0. */

#endif /* SEALHOST_H */
