/* Objects and arrays of a schema. */
#ifndef JSON_CONTAINERS_H
#define JSON_CONTAINERS_H

#include "keywords.h"

#define MAX_ITEMS 1024u      /* of minItems and maxItems: each is a state */
#define NO_BOUND 0xffffffffu
#define MAX_PROPERTIES 1024u /* of one schema */

/* The state from which a value that fits a schema node is called; written by schema.c. */
uint32_t value_rule(uint32_t schema);

uint32_t object_states(const struct json *json, const struct keywords *found, uint32_t next);
uint32_t array_states(const struct json *json, const struct keywords *found, uint32_t next);

#endif
