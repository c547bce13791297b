/* The keywords of one schema, found and checked. */
#ifndef JSON_KEYWORDS_H
#define JSON_KEYWORDS_H

#include <stdint.h>

#include "json_text.h"
#include "values.h"

enum keyword {
    KEY_REF, KEY_CONST, KEY_ENUM, KEY_ANY_OF, KEY_ONE_OF, KEY_ALL_OF, /* each stands alone, but for `type` */
    KEY_TYPE,
    KEY_PROPERTIES, KEY_REQUIRED, KEY_ADDITIONAL,
    KEY_ITEMS, KEY_PREFIX_ITEMS, KEY_MIN_ITEMS, KEY_MAX_ITEMS,
    KEY_MIN_LENGTH, KEY_MAX_LENGTH, KEY_PATTERN,
    KEY_MINIMUM, KEY_MAXIMUM, KEY_EXCLUSIVE_MINIMUM, KEY_EXCLUSIVE_MAXIMUM,
    KEYWORDS,
};

enum { TYPE_NULL = 1, TYPE_BOOLEAN = 2, TYPE_STRING = 4, TYPE_INTEGER = 8, TYPE_NUMBER = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64, TYPE_ALL = 127 };

struct keywords {
    uint32_t node[KEYWORDS]; /* NO_NODE: it is not there */
    uint32_t types;          /* TYPE_ bits: those of `type`, or those that the keywords are about, or all */
    int is_empty;            /* no keyword limits anything */
};

/* Each returns 0 when something is refused; the first one's text stands in the error area. */
int find_keywords(const struct json *json, uint32_t schema, struct keywords *found);
int whole_limit(const struct json *json, const struct keywords *found, enum keyword which, uint32_t most, uint32_t *value);
int number_limits(const struct json *json, const struct keywords *found, struct limits *limits);

extern int is_refused;
const char *keyword_name(enum keyword which);

/* "schema: KEYWORD: expected ...": returns 0. */
int refuse(const char *keyword, const char *expected);

/* The TYPE_ bit of a value; whole numbers have both bits of numbers. */
uint32_t type_of(const struct json *json, uint32_t node);

#endif
