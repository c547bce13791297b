/* What propertyNames says of the names of an object's members. */
#ifndef JSON_NAMING_H
#define JSON_NAMING_H

#include "keywords.h"
#include "names.h"

extern enum naming {
    NAMES_ANY,
    NAMES_LIMITED, /* by the limits of texts */
    NAMES_LISTED,  /* there are no others */
    NAMES_NONE,
} naming;
extern struct limits name_limits;
extern uint32_t listed[MAX_PROPERTIES], listed_count; /* nodes of texts */

/* Finds it; 0: something is refused. */
int find_naming(const struct limits *limits);

/* Whether a name, which stands in the schema's text, is taken. */
int name_fits(const struct json *json, uint32_t name, uint32_t length);

#endif
