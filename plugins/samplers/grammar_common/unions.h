/* Sets of states of several automata that read one text (product.h), and the ways between them. */
#ifndef GRAMMAR_UNIONS_H
#define GRAMMAR_UNIONS_H

#include "limits.h"
#include "states.h"

struct set {
    uint32_t first, count; /* byte states, in `members` */
    uint32_t first_way, way_count;
    uint16_t takers; /* automata that take the text so far */
    uint8_t is_whole; /* the last letter is complete */
    uint32_t chain;
};

struct way {
    struct byte_set bytes;
    uint32_t to;
};

extern struct set unions[MAX_PLACES]; /* 0 is none */
extern struct way ways[MAX_WAYS];

/* Forgets the automata. A set in which one of the needed ones (bits) can take nothing any more is none. */
void unions_begin(uint32_t needed);

/* Finds all sets and ways; returns the set of the empty text. Sets count from 1. */
uint32_t unions_meet(void);

/* Whether all plain letters lead from a set to itself (states.h, LETTER_OF_LOOP). */
int is_plain_loop(uint32_t set);

#endif
