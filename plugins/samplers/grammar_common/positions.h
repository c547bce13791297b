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
extern uint32_t shapes[MAX_POSITIONS];  /* the first position that differs in nothing but its spare letters; itself where it has none */
extern uint32_t transitions[TABLE_WORDS];
extern uint32_t position_limit;         /* how many this number of classes leaves room for */
extern uint32_t position_round;         /* counts how often all positions were forgotten */
extern const char *position_problem;    /* 0, or what there was too much of */

/* Forgets all positions; returns that of the empty text from `start`, NOWHERE with position_problem on failure. */
uint32_t positions_begin(uint32_t start);

/* At a step's begin: gives the step its work, and makes room when half is used. Returns where `position` is now. */
uint32_t positions_renew(uint32_t position);

uint32_t find_next(uint32_t position, uint32_t class);

/* All bytes that may follow. */
struct byte_set bytes_read(uint32_t position);

/* Whether a set has a byte of plain tokens (trie.h). */
int reads_plain(const struct byte_set *set);

/* Whether characters beyond ASCII are sure to lead where a plain byte leads, for only letters of counted strings read one or
 * the other (states.h). */
int leads_as_letters(uint32_t position, uint8_t byte);

/* As next_position, for what only saves work (loops.h, likeness.h): it spends an allowance of its own, and no bound that it meets
 * refuses anything. NOWHERE may stand for what it could not find, after which may_look_aside says no until the next step. */
uint32_t find_aside(uint32_t position, uint32_t class);
int may_look_aside(void);
uint32_t aside_spent(void); /* of the allowance, in this step */

static inline uint32_t next_aside(uint32_t position, uint8_t byte) {
    uint32_t class = class_of[byte], found = transitions[position * class_count + class];
    return found ? found : find_aside(position, class);
}

static inline uint32_t least_spare(uint32_t a, uint32_t b) {
    return positions[a].spare < positions[b].spare ? positions[a].spare : positions[b].spare;
}

/* For how many letters what may follow two positions is sure to be the same, as they differ in their spare letters alone. */
static inline uint32_t same_for(uint32_t a, uint32_t b) {
    return shapes[a] == shapes[b] ? least_spare(a, b) : 0;
}

/* A position that the same texts of at most so many bytes can follow, and that was met before if there is one. */
static inline uint32_t usual(uint32_t position, uint32_t bytes) {
    uint32_t shape = shapes[position];
    return shape != position && least_spare(shape, position) >= bytes ? shape : position;
}

static inline uint32_t next_position(uint32_t position, uint8_t byte) {
    uint32_t class = class_of[byte], found = transitions[position * class_count + class];
    return found ? found : find_next(position, class);
}

#endif
