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
 *          and, if it wants to know the tokens: vocabulary(size) -> offset or 0
 * Order: sealhost_sampler_v1, vocabulary, init, layout, then step for every token. A fresh instance serves
 * each request; reset() returns an instance to its state after init().
 *
 * An instance has slots, one for each choice of its request. Areas marked "by slot" have one part for each
 * slot; a step lists the slots that it is about: rows[0 .. rows-1], and result i answers row i (clause 2.2).
 * The tier that the manifest declares says which areas there are (clause 2.10).
 */
struct sealhost_sampler_layout {
    uint32_t size;               /* sizeof(struct sealhost_sampler_layout) */
    uint32_t minor;              /* SEALHOST_ABI_MINOR that the guest was built with */
    uint32_t max_rows;           /* slots, and rows that one step can hold, 1..64 */
    uint32_t vocab_capacity;     /* ids that the guest has room for: most logits of a row */
    uint32_t logits;             /* full tier: float32[max_rows][logits_stride / 4] by slot; 4096-aligned. Else 0 */
    uint32_t logits_stride;      /* bytes from one slot's logits to the next; a multiple of 4096. Else 0 */
    uint32_t rows;               /* struct sealhost_row[max_rows]; 8-aligned */
    uint32_t results;            /* struct sealhost_result[max_rows]; 8-aligned */
    uint32_t history;            /* uint32[max_rows][history_capacity] by slot; 4-aligned: prompt ids, then generated ids */
    uint32_t history_capacity;   /* ids that one slot can hold */
    uint32_t bias;               /* struct sealhost_bias[bias_capacity]; 4-aligned: the request's, the same for all slots */
    uint32_t bias_capacity;      /* entries */
    uint32_t config;             /* opaque bytes, JSON by convention, written once before the first step */
    uint32_t config_capacity;    /* bytes, at most 16384 */
    uint32_t error;              /* UTF-8 text of the last error, NUL-terminated */
    uint32_t error_capacity;     /* bytes, at least 64, at most 4096 */
    uint32_t candidates;         /* topk tier: struct sealhost_candidate[max_rows][candidate_capacity] by slot; 4-aligned. Else 0 */
    uint32_t candidate_capacity; /* at least the K of the tier. Else 0 */
    uint32_t answer;             /* [max_rows][answer_capacity] by slot; 4-aligned: what MASK, SPARSE, BACKTRACK, FAST_FORWARD point at */
    uint32_t answer_capacity;    /* bytes, a multiple of 4, at most 1048576; 0: none. A mask needs 4 * ((vocab_size + 31) / 32) */
    uint32_t log;                /* struct sealhost_log; 4-aligned. 0: none */
    uint32_t max_backtrack;      /* ids that one answer takes back at most, 0..65536; 0: never */
};

enum { /* sealhost_row.flags */
    SEALHOST_ROW_NEW = 1,    /* first row of this slot: the history begins with the prompt */
    SEALHOST_ROW_ACCEPT = 2, /* the history has changed since this slot's last row: see `taken_back` and `appended` */
    SEALHOST_ROW_SAMPLE = 4, /* an answer is wanted */
    SEALHOST_ROW_FORK = 8,   /* first row of this slot: it continues as a copy of slot `parent` */
    SEALHOST_ROW_CLOSE = 16, /* last row of this slot; no answer is wanted */
};

/* Written by the host before each step. Parameters that a guest does not use it ignores. */
struct sealhost_row {
    uint32_t size;               /* sizeof(struct sealhost_row) */
    uint32_t slot;               /* which choice this row is about: below max_rows */
    uint32_t flags;              /* SEALHOST_ROW_* */
    uint32_t vocab_size;         /* ids of the model: those below it are valid */
    uint64_t random[2];          /* fresh for every step, a function of (seed, choice, position) only */
    uint32_t prompt_length;      /* ids of the history that came from the prompt */
    uint32_t history_length;     /* ids of the history in all: prompt + generated */
    uint32_t bias_count;         /* entries of the bias list; the same in every row */
    uint32_t config_length;      /* bytes of config; the same in every row */
    float temperature;           /* 0: greedy */
    int32_t top_k;               /* <= 0 or >= vocab_size: off */
    float top_p;                 /* (0, 1]; 1: off */
    float min_p;                 /* [0, 1]; 0: off */
    float repetition_penalty;    /* > 0; 1: off; sees prompt and generated ids */
    float presence_penalty;      /* 0: off; sees generated ids only */
    float frequency_penalty;     /* 0: off; sees generated ids only */
    uint32_t candidate_count;    /* topk tier: candidates of this slot. Else 0 */
    uint32_t parent;             /* with FORK: the slot that this one is a copy of */
    uint32_t taken_back;         /* ids at the end of the history of this slot's last row that are gone, */
    uint32_t appended;           /* and ids that stand there instead: the last ones of the history */
    uint32_t backtrack_room;     /* ids that BACKTRACK may take off in this answer */
};

struct sealhost_bias {
    uint32_t id;
    float bias; /* added to the logit; -inf forbids the id */
};

struct sealhost_candidate {
    uint32_t id;
    float logit;
};

/* What a guest has to say for its author: read when it fails, by `sealhost plugin test`, and at the host's debug level. */
#define SEALHOST_LOG_BYTES 4096u
struct sealhost_log {
    uint32_t written; /* bytes written since init(); byte n lies at bytes[n % SEALHOST_LOG_BYTES] */
    uint8_t bytes[SEALHOST_LOG_BYTES];
};

enum { /* sealhost_result.action */
    SEALHOST_TOKEN = 1,        /* the id in `token` */
    SEALHOST_PASS = 2,         /* the host samples from the logits as they came, with the row's parameters */
    SEALHOST_EDITED = 3,       /* the guest changed logits or candidates in place; the host samples from them */
    SEALHOST_MASK = 4,         /* the host samples from the ids whose bit is set: uint32[(vocab_size + 31) / 32], bit 0 first */
    SEALHOST_SPARSE = 5,       /* the host samples after adding `count` struct sealhost_bias to the logits */
    SEALHOST_STOP = 6,         /* end this choice here */
    SEALHOST_BACKTRACK = 7,    /* take `token` ids off the history, then append `count` uint32 ids */
    SEALHOST_FAST_FORWARD = 8, /* append `count` uint32 ids */
};

/* Written by the guest in each step for every row that carries SEALHOST_ROW_SAMPLE. */
struct sealhost_result {
    uint32_t size;   /* sizeof(struct sealhost_result) */
    uint32_t action; /* SEALHOST_TOKEN ... */
    uint32_t token;  /* TOKEN: id < vocab_size. BACKTRACK: 1..backtrack_room ids to take off */
    uint32_t count;  /* SPARSE, BACKTRACK, FAST_FORWARD: entries or ids in the slot's answer area */
};

/* What a sampler that exports vocabulary() gets: the host writes it, in one piece, to the 8-aligned offset that
 * vocabulary(size) returns, before init() (clause 2.16). Offsets count from the beginning of this struct. */
struct sealhost_token_table {
    uint32_t size;    /* sizeof(struct sealhost_token_table) */
    uint32_t count;   /* tokens; ids of the model that are not below it spell nothing */
    int32_t bos;      /* token id, -1: none */
    int32_t eos;
    int32_t unknown;
    uint32_t types;   /* offset of uint8 types[count]: SEALHOST_TYPE_*, 0 counts as normal */
    uint32_t offsets; /* offset of uint32 offsets[count + 1] into the bytes, never descending */
    uint32_t bytes;   /* offset of the bytes that the ids spell, one after another; control tokens spell none */
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
