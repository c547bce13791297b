/* JSON Schemas as states (README, chapter 1). */
#ifndef JSON_SCHEMA_H
#define JSON_SCHEMA_H

#include <stdint.h>

#include "conjunction.h"
#include "json_text.h"
#include "keywords.h"

/* The first state of the texts that fit a schema; on failure an error status, with its text in the error area. */
int32_t schema_states(const struct json *json, uint32_t root, uint32_t *start);

/* Replaces schemas by their parts, and finds the limits of these; 0: no value fits, or something is refused. */
int take_apart(const struct json *json, const struct parts *given, struct parts *parts, struct limits *limits);

/* A value that fits all parts, then `next`. */
uint32_t value_states(const struct json *json, const struct parts *parts, uint32_t next);

#endif
