/* Members of an object by their names. */
#ifndef JSON_NAMES_H
#define JSON_NAMES_H

#include "keywords.h"

#define MAX_PROPERTIES 1024u /* of one object */
#define NO_OWN 0xffffffffu

struct member {
    uint32_t name, length; /* in the schema's text */
    uint32_t own, node;    /* the first of the limits that lists it, NO_OWN: none; its schema there */
    uint8_t is_required, is_never; /* propertyNames does not take its name */
};

/* Those that `properties` and `required` name, in this order, and the others that `propertyNames` lists. */
extern struct member members[MAX_PROPERTIES];
extern uint32_t member_count;

/* Finds them, and the patterns of names; 0: something is refused, or there is too much. */
int find_names(const struct limits *limits);

/* The one with a name, 0: none. */
const struct member *member_with(const struct json *json, uint32_t name, uint32_t length);

/* Adds the schemas that a member has to fit: one of those, or one that is none of them, whose `own` is NO_OWN. */
void member_parts(const struct limits *limits, const struct member *member, struct parts *parts);

/* One member that is none of them, then `next`; DEAD_STATE where there is none (clause 1.3). */
uint32_t other_states(const struct limits *limits, uint32_t next);

#endif
