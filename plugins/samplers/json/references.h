/* Where $ref points. */
#ifndef JSON_REFERENCES_H
#define JSON_REFERENCES_H

#include <stdint.h>

#include "json_text.h"

/* The node that a $ref names within the schema at `root`; NO_NODE when it is refused. */
uint32_t referred(const struct json *json, uint32_t ref, uint32_t root);

#endif
