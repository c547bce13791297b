/* The keywords of one schema, found and checked; and those of several that a value has to fit at once. */
#ifndef JSON_KEYWORDS_H
#define JSON_KEYWORDS_H

#include <stdint.h>

#include "conjunction.h"
#include "json_text.h"

enum keyword {
    KEY_REF, KEY_ALL_OF, KEY_ANY_OF, KEY_ONE_OF, KEY_CONST, KEY_ENUM, /* the others are a schema's own limits */
    KEY_TYPE,
    KEY_PROPERTIES, KEY_PATTERN_PROPERTIES, KEY_REQUIRED, KEY_NAMES, KEY_ADDITIONAL, KEY_MIN_PROPERTIES, KEY_MAX_PROPERTIES,
    KEY_ITEMS, KEY_ADDITIONAL_ITEMS, KEY_PREFIX_ITEMS, KEY_MIN_ITEMS, KEY_MAX_ITEMS, KEY_UNIQUE_ITEMS,
    KEY_MIN_LENGTH, KEY_MAX_LENGTH, KEY_PATTERN, KEY_FORMAT,
    KEY_MINIMUM, KEY_MAXIMUM, KEY_EXCLUSIVE_MINIMUM, KEY_EXCLUSIVE_MAXIMUM, KEY_MULTIPLE_OF,
    KEYWORDS,
};

enum { TYPE_NULL = 1, TYPE_BOOLEAN = 2, TYPE_STRING = 4, TYPE_INTEGER = 8, TYPE_NUMBER = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64, TYPE_ALL = 127 };

struct keywords {
    uint32_t node[KEYWORDS]; /* NO_NODE: it is not there */
    uint32_t named;          /* TYPE_ bits of `type`; all without it */
    uint32_t subjects;       /* those that the keywords are about */
};

struct limits { /* what a conjunction's schemas say themselves */
    const struct json *json;
    uint32_t count;
    const struct keywords *of[MAX_PARTS];
    uint32_t named, subjects; /* what each has, and what one of them has */
};

/* Forgets the keywords that were found: another schema is read. */
void keywords_clear(void);

/* Those of a schema; 0 when something is refused, of which the first text stands in the error area. */
const struct keywords *keywords_of(const struct json *json, uint32_t schema);
int has_own(const struct keywords *found);
void add_limits(struct limits *limits, const struct keywords *found);

/* Types of the values that are written: those named, or without a name those that the keywords are about, or all. */
uint32_t types_of(const struct limits *limits);

/* Whether one of the schemas has a keyword. */
int has_keyword(const struct limits *limits, enum keyword which);

/* Raise *value to the largest, lower it to the smallest of a keyword's whole numbers, which are at most `most`; 0: one is refused. */
int largest(const struct limits *limits, enum keyword which, uint32_t most, uint32_t *value);
int smallest(const struct limits *limits, enum keyword which, uint32_t most, uint32_t *value);

extern int is_refused;
const char *keyword_name(enum keyword which);

/* "schema: KEYWORD: expected ...": returns 0. */
int refuse(const char *keyword, const char *expected);

/* The TYPE_ bit of a value; whole numbers have both bits of numbers. */
uint32_t type_of(const struct json *json, uint32_t node);

#endif
