/* A JSON text as a tree: configurations, and the schemas in them. */
#ifndef GRAMMAR_JSON_TEXT_H
#define GRAMMAR_JSON_TEXT_H

#include <stdint.h>

#define JSON_BYTES 16384u
#define JSON_NODES 8193u
#define JSON_DEPTH 64u
#define NO_NODE 0u /* node 0 is none; the root is node 1 */

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT };

struct json_node {
    uint8_t kind;
    uint32_t key, key_length; /* in an object: its name, in `text` */
    uint32_t at, length;      /* TEXT: decoded, in `text`. NUMBER: as written, in `text` */
    uint32_t first, last;     /* of its parts */
    uint32_t next, before;    /* the parts after and before it in what it is part of */
};

struct json {
    uint32_t count;
    struct json_node nodes[JSON_NODES];
    uint32_t used;
    uint8_t text[2 * JSON_BYTES];
};

/* Reads a whole text; 0 when it is none within the bounds. */
int json_read(struct json *json, const uint8_t *bytes, uint32_t length);

/* The member of an object with this name, NO_NODE: there is none. */
uint32_t json_member(const struct json *json, uint32_t object, const char *name);

int json_is(const struct json *json, uint32_t at, uint32_t length, const char *text);

#endif
