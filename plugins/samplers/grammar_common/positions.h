/* Where a text can be in the automaton: a position is a set of paths (state, open calls), made when it is met. */
#ifndef GRAMMAR_POSITIONS_H
#define GRAMMAR_POSITIONS_H

#include <stdint.h>

#include "limits.h"
#include "states.h"

#define NOWHERE 1u /* the position of texts that nothing can complete; 0 stands for "not known yet" */

struct position {
    uint32_t first, count; /* paths */
    uint8_t accepts;       /* the text may end here */
    uint8_t room;          /* plain tokens of at most so many letters may all follow, and no others */
    uint16_t mask;         /* 1 + number of its cached mask, 0: none */
    uint32_t spare;        /* letters that are left of the one counted call that is open, beyond what any way to an end needs; 0: there is none */
};

extern struct position positions[MAX_POSITIONS];
extern uint32_t transitions[TABLE_WORDS];
extern uint32_t position_limit;         /* how many this number of classes leaves room for */
extern uint32_t position_round;         /* counts how often all positions were forgotten */
extern const char *position_problem;    /* 0, or what there was too much of */

/* Forgets all positions; returns that of the empty text from `start`, NOWHERE with position_problem on failure. */
uint32_t positions_begin(uint32_t start);

/* At a step's begin: gives the step its work, and makes room when half is used. Returns where `position` is now. */
uint32_t positions_renew(uint32_t position);

uint32_t find_next(uint32_t position, uint32_t class);

/* Whether two positions differ in nothing but how many letters are left. */
int same_but_spare(uint32_t a, uint32_t b);

/* Whether a set has a byte of plain tokens (trie.h). */
int reads_plain(const struct byte_set *set);

static inline uint32_t next_position(uint32_t position, uint8_t byte) {
    uint32_t class = class_of[byte], found = transitions[position * class_count + class];
    return found ? found : find_next(position, class);
}

#endif
