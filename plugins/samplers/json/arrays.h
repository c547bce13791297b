/* Arrays of a conjunction. */
#ifndef JSON_ARRAYS_H
#define JSON_ARRAYS_H

#include "keywords.h"

uint32_t array_states(const struct limits *limits, uint32_t next);

/* A constant array, whose items have to fit; with no spaces. */
uint32_t constant_array(const struct limits *limits, uint32_t value, uint32_t next);

#endif
