/* Values of const and enum, as far as they fit what stands beside them. */
#ifndef JSON_CONSTANTS_H
#define JSON_CONSTANTS_H

#include "keywords.h"

/* `parts` has values and lists of values and no choices; `limits` are those of its other parts. */
uint32_t constant_states(const struct parts *parts, const struct limits *limits);

/* Whether two values are equal: numbers by what they mean, objects in any order. */
int equal_values(const struct json *json, uint32_t a, uint32_t b);

#endif
