/* What every schema is made of: strings, numbers, literal values, any value (README, chapter 2). */
#ifndef JSON_VALUES_H
#define JSON_VALUES_H

#include <stdint.h>

#include "json_text.h"

void values_clear(void);

/* Each gives the first state of something that `next` follows. */
uint32_t string_states(uint32_t next);                              /* any string */
uint32_t string_tail(uint32_t next);                                /* the rest of one, with its closing quote */
uint32_t sized_string(uint32_t least, uint32_t most, uint32_t next); /* most ENDLESS (limits.h): without bound */
uint32_t any_whole(uint32_t next);
uint32_t any_number(uint32_t next);
uint32_t literal(const struct json *json, uint32_t node, uint32_t next); /* as compact JSON */
uint32_t quoted(const uint8_t *text, uint32_t length, uint32_t next);
uint32_t spelled(const uint8_t *text, uint32_t length, uint32_t next); /* the same without quotes */
uint32_t any_value(uint32_t next);
uint32_t any_object(uint32_t next);
uint32_t any_array(uint32_t next);
uint32_t spaced(uint8_t byte, uint32_t next); /* `:` or `,`, maybe with one space after it */

#endif
