/* Ways to have read a text: a path is a state with the calls that are open. One set of paths is made at a time. */
#ifndef GRAMMAR_PATHS_H
#define GRAMMAR_PATHS_H

#include "limits.h"
#include "states.h"

#define UNCOUNTED 0xffffffffu

struct stack_node { /* node 0 is the empty stack */
    uint32_t back, below; /* the state to return to; the rest */
    uint32_t left, count; /* letters that what was called may still read, of which count (states.h); UNCOUNTED: any number */
    uint32_t depth, chain;
};

struct path {
    uint32_t state, stack;
};

extern struct stack_node stacks[MAX_STACK_NODES];
extern uint32_t stack_count;
extern uint32_t path_work;           /* paths that were looked at in this step */

/* The set that is being made: paths in byte states, small sets sorted; and whether the text may end here. */
extern struct path found[MAX_PATHS];
extern uint32_t found_count;
extern uint8_t found_accepts;

/* Forgets all stacks. */
void stacks_clear(void);

/* A stack with one more open call, the same for the same parts. */
uint32_t push(uint32_t back, uint32_t below, uint32_t left, uint32_t count);

/* Letters that what was called has to read yet. */
uint32_t owed(uint32_t stack);

/* Begins a set. Then see() paths, and follow() all of them. */
void begin_set(void);

/* Adds a path to those seen, unless it was, or nothing can complete it. */
void see(uint32_t state, uint32_t stack);

/* Follows all that reads no byte, so that the set is found. */
void follow(void);

/* What position_problem (positions.h) is from now on, unless it was something before. */
uint32_t too_many(const char *what);

static inline uint32_t mixed(uint32_t a, uint32_t b) {
    uint32_t hash = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    hash ^= hash >> 15;
    hash *= 0x2c1b3c6du;
    return hash ^ hash >> 13;
}

#endif
