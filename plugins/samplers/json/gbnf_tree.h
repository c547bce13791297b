/* A grammar as it was read: rules, and the parts that they are made of.
 *
 * A part stands before the whole that it belongs to, and after what comes before it in a sequence: so one pass upwards
 * sees every part before its whole, and one pass downwards every whole before its parts. No function here calls itself.
 */
#ifndef JSON_GBNF_TREE_H
#define JSON_GBNF_TREE_H

#include <stdint.h>

#include "characters.h"

#define GBNF_BYTES 16384u      /* of a grammar: a configuration has no more */
#define GBNF_PARTS 32769u      /* two for each byte at most: ** makes a group and a sequence; part 0 is none */
#define GBNF_RULES 4096u       /* names, defined or only used */
#define GBNF_RANGES 16384u     /* of characters, in all classes and literals */
#define GBNF_NESTING 256u      /* groups within groups, written or made by a second quantifier */
#define GBNF_MAX_REPEAT 2000u  /* in {m,n}: llama.cpp's own bound */
#define GBNF_FOR_EVER 0xffffu

#define NO_PART 0u
#define NO_RULE 0xffffffffu

enum part_kind {
    PART_TEXT,     /* characters one after another */
    PART_SET,      /* one character of a class */
    PART_RULE,     /* what a rule stands for */
    PART_GROUP,    /* one of several sequences */
    PART_SEQUENCE, /* parts one after another */
};

struct part {
    uint8_t kind;
    uint8_t is_empty;     /* the empty text is one of its texts */
    uint8_t is_left;      /* it may stand at the very beginning of its rule */
    uint8_t is_called;    /* it becomes calls of states that are made once, not copies */
    uint16_t least, most; /* repetitions; GBNF_FOR_EVER: without end */
    uint16_t height;      /* groups within groups in it */
    uint32_t at;          /* where it stands in the grammar, for messages */
    uint32_t a;           /* TEXT, SET: first range. RULE: its number. GROUP: last sequence. SEQUENCE: last part */
    uint32_t count;       /* TEXT, SET: ranges. GROUP that is a rule's body: the rule */
    uint32_t before;      /* the part or sequence before it, NO_PART: it is the first */
    uint32_t whole;       /* the sequence or group that it belongs to, NO_PART: it is a rule's body */
    uint32_t alike;       /* RULE: another part that names the same rule */
};

struct rule {
    uint32_t at, length;    /* its name; where it is defined, or was first used */
    uint32_t body;          /* a group, NO_PART: it was not defined */
    uint32_t first, end;    /* its parts */
    uint32_t named;         /* a part that names it */
};

struct range {
    uint32_t low, high;
};

struct grammar {
    const uint8_t *text;
    uint32_t length;
    uint32_t part_count, rule_count, range_count;
    struct part parts[GBNF_PARTS];
    struct rule rules[GBNF_RULES];
    struct range ranges[GBNF_RANGES];
};

extern struct grammar grammar;
extern int32_t gbnf_status; /* SEALHOST_OK, or that of the first refusal, whose text stands in the error area */

/* ---- gbnf_read.c ---- */

/* Reads a grammar; refuses what is not GBNF. */
void gbnf_read(const uint8_t *text, uint32_t length);

/* "grammar: line L, column C: expected ...": the first one stands; returns 1 when this is it, and more may be added. */
int gbnf_refuse(int32_t status, uint32_t at, const char *expected);

/* ---- gbnf_rules.c ---- */

void gbnf_forget_names(void);

/* The rule of the name that stands here, made when there was none; NO_RULE: there are too many. */
uint32_t gbnf_named(uint32_t at, uint32_t length);

/* The rule named root, NO_RULE: there is none. */
uint32_t gbnf_root(void);

/* Adds a rule's name to the text of a refusal. */
void gbnf_name(uint32_t rule);

/* Refuses rules that are not defined, and left recursion. */
void gbnf_check(void);

/* The rules that `root` needs, in an order in which those that one needs stand before it, but for recursion. */
uint32_t gbnf_order(uint32_t root, uint32_t *order);

#endif
