/* Values of const and enum, as far as they fit what stands beside them. */
#ifndef JSON_CONSTANTS_H
#define JSON_CONSTANTS_H

#include "keywords.h"

/* A value that fits, and the first state of its text, which RETURN follows. */
struct constant {
    uint32_t value, state;
};

/* Whether parts have values and no choice. */
int are_constants(const struct parts *parts);

/* `parts` has values and lists of values and no choices; `limits` are those of its other parts. */
uint32_t constant_states(const struct parts *parts, const struct limits *limits);

/* Finds the first `most` values that fit; returns how many there are, most + 1: more. */
uint32_t find_constants(const struct parts *parts, const struct limits *limits, struct constant *found, uint32_t most);

/* Finds the texts that fit, in the same way; nothing is written of them. */
uint32_t find_texts(const struct parts *parts, const struct limits *limits, uint32_t *found, uint32_t most);

/* Whether two values are equal: numbers by what they mean, objects in any order. */
int equal_values(const struct json *json, uint32_t a, uint32_t b);

#endif
