/* A pattern as a tree, between regex.c, which reads it, and regex_states.c, which makes states of it. */
#ifndef GRAMMAR_REGEX_TREE_H
#define GRAMMAR_REGEX_TREE_H

#include "regex.h"

#define MAX_ITEMS 32768u
#define POOL 16384u
#define FOR_EVER 0xffffu
#define NONE 0xffffffffu

struct item {
    uint8_t is_group;
    uint8_t starts, ends; /* of an alternative: it had ^, $ */
    uint16_t least, most; /* repetitions */
    uint32_t a;           /* a set: its first range. A group: its last alternative. An alternative: its last item */
    uint32_t count;       /* a set: its ranges */
    uint32_t before;      /* the item or alternative before it, NONE: it is the first */
};

struct item_range {
    uint32_t low, high;
};

extern struct item items[MAX_ITEMS];
extern struct item_range pool[POOL];

/* The first state of the whole pattern, after which `next` follows. */
uint32_t tree_states(uint32_t whole, enum regex_form form, uint32_t next);

#endif
