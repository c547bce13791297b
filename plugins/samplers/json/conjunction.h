/* What a value has to fit all at once: schemas, and parts of them, in the order in which they are mentioned. */
#ifndef JSON_CONJUNCTION_H
#define JSON_CONJUNCTION_H

#include <stdint.h>

#define MAX_PARTS 128u         /* of one conjunction */
#define MAX_CONJUNCTIONS 16384u /* twice as many as a configuration has schemas */
#define ALL_PARTS 65536u       /* in all of them */

enum part_kind {
    PART_SCHEMA, /* all that a schema says */
    PART_OWN,    /* its own limits: all but those below, and what $ref and allOf name */
    PART_CHOICE, /* one of a list of schemas: the node is the list of anyOf or oneOf */
    PART_ENUM,   /* one of a list of values */
    PART_VALUE,  /* this value */
};

struct parts {
    uint32_t count;
    uint32_t of[MAX_PARTS]; /* node * 8 + kind */
};

static inline uint32_t part_node(uint32_t part) {
    return part / 8;
}

static inline enum part_kind part_kind(uint32_t part) {
    return (enum part_kind)(part % 8);
}

/* Adds a part that is not there yet; a whole schema takes the place of its own limits. Too many end in build_problem. */
void add_part(struct parts *parts, uint32_t node, enum part_kind kind);

void conjunctions_clear(void);

/* The number of a conjunction, the same for the same parts; numbers count from 1. 0: no room, as build_problem says. */
uint32_t conjunction_of(const struct parts *parts);
uint32_t conjunction_count(void);
void conjunction_parts(uint32_t number, struct parts *parts);

#endif
