/* Objects of a conjunction. */
#ifndef JSON_OBJECTS_H
#define JSON_OBJECTS_H

#include "keywords.h"

uint32_t object_states(const struct limits *limits, uint32_t next);

/* A constant object, whose members have to fit; with no spaces. */
uint32_t constant_object(const struct limits *limits, uint32_t value, uint32_t next);

#endif
