/* The automaton as it is written: states over bytes, with calls for what nests or comes again. */
#ifndef GRAMMAR_STATES_H
#define GRAMMAR_STATES_H

#include <stdint.h>

#include "limits.h"

enum { /* state.letters of BYTE states: see trie.h */
    LETTER_OF_LOOP = 1, /* reads the plain ASCII letters of a string without bounds */
    LETTER = 2,         /* the same, of one letter that was called from a string with bounds */
    LETTER_BEGIN = 3,   /* reads the first byte of such a letter that is not ASCII */
};

enum state_kind {
    STATE_BYTE, STATE_SPLIT, STATE_CALL, STATE_RETURN,
    STATE_COUNT, /* calls a rule without calls, which may read so many letters */
    STATE_TICK,  /* one of these has been read */
};

struct state {
    uint8_t kind;
    uint8_t letters; /* BYTE: LETTER ... CALL, SPLIT: of a string that may follow, at most PLAIN_LETTERS - 1. COUNT: index of its count */
    uint16_t need;   /* open calls that its shortest way to RETURN takes; NEVER: there is none */
    uint32_t a;      /* BYTE: index of a set. SPLIT: one way. CALL, COUNT: first state of what is called */
    uint32_t b;      /* BYTE, CALL, COUNT, TICK: the state after it. SPLIT: the other way */
};

struct count {
    uint32_t most;  /* letters that what is called may read */
    uint32_t least; /* of these; what is called has to be able to read more for as long as it has read fewer */
    uint32_t after; /* letters of a string that may follow at once, at most PLAIN_LETTERS */
};

struct byte_set {
    uint32_t bits[8];
};

#define NEVER 0xffffu
#define RETURN_STATE 0u /* one for all */
#define DEAD_STATE 1u   /* nothing follows */

extern struct state states[MAX_STATES];
extern struct byte_set sets[MAX_SETS];
extern uint16_t letters_left[MAX_STATES]; /* least number of TICKs from a state to RETURN; NEVER: there is no way without calls */
extern uint32_t letters_most;             /* the largest of these */
extern struct count counts[MAX_COUNTS];   /* of COUNT states, by their `letters` */
extern uint32_t state_count, set_count, class_count;
extern uint8_t class_of[256];      /* bytes that no set tells apart share a class */
extern uint8_t class_byte[256];    /* a byte of each class */
extern const char *build_problem;  /* 0, or what the grammar has too much of */

void states_clear(void);

/* Counts a step of building; 0 when there were too many, or another bound was met. */
int may_build(void);

/* The same for steps of a few instructions, of which QUICK count as one. */
int may_step(void);

uint32_t byte_state(const struct byte_set *set, uint32_t next);
uint32_t range_state(uint32_t low, uint32_t high, uint32_t next);
uint32_t split_state(uint32_t a, uint32_t b);
uint32_t call_state(uint32_t rule, uint32_t next);

/* A call of a rule that reads as many letters as `count` says, each of which its TICKs tell; the rule has no calls itself. */
uint32_t count_state(uint32_t rule, struct count count, uint32_t next);
uint32_t tick_state(uint32_t next);

/* A state whose two ways are set later: where a loop comes back to, or a rule begins. */
uint32_t open_state(void);
void close_state(uint32_t state, uint32_t a, uint32_t b);

/* Bytes in order, then `next`. */
uint32_t text_state(const uint8_t *text, uint32_t length, uint32_t next);

/* Forgets the states from `count` on, which nothing else may hold. */
void states_drop(uint32_t count);

/* Finds the classes of bytes that the sets so far tell apart. */
void find_classes(void);

extern int has_deep_calls; /* some state has no other way to RETURN than one of more than MAX_STACK open calls */

/* Computes `need` and the classes of bytes; 0 when nothing can be spelled from `start`. */
int states_finish(uint32_t start);

static inline int set_has(const struct byte_set *set, uint32_t byte) {
    return (int)(set->bits[byte / 32] >> (byte % 32) & 1);
}

static inline void set_add(struct byte_set *set, uint32_t low, uint32_t high) {
    for (uint32_t word = low / 32; word <= high / 32; word++) {
        uint32_t bits = 0xffffffffu;
        if (word == low / 32)
            bits &= 0xffffffffu << low % 32;
        if (word == high / 32)
            bits &= 0xffffffffu >> (31 - high % 32);
        set->bits[word] |= bits;
    }
}

#endif
