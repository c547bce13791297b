/* The formats that are asserted, each a pattern (README, clause 1.7). */
#ifndef JSON_FORMATS_H
#define JSON_FORMATS_H

#include <stdint.h>

#include "json_text.h"

#define NO_FORMAT 0u
#define FORMATS 10u

/* The number of the format that a text names, from 1; NO_FORMAT: none that is asserted. */
uint32_t format_named(const struct json *json, uint32_t node);

/* The letters of its shortest text. */
uint32_t format_least(uint32_t format);

/* Its pattern (grammar_common, chapter 3), which matches whole texts, of at most so many letters (ENDLESS: as many as they like). */
uint32_t format_most(uint32_t format);
const char *format_pattern(uint32_t format);

#endif
