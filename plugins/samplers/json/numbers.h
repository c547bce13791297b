/* Numbers of a conjunction: between two values, in steps. */
#ifndef JSON_NUMBERS_H
#define JSON_NUMBERS_H

#include "decimal.h"
#include "keywords.h"

void numbers_clear(void);

uint32_t number_states(const struct limits *limits, int is_whole, uint32_t next);

/* Whether a number fits the limits that find_bounds has read; it refuses what it cannot read. */
int find_bounds(const struct limits *limits);
int number_fits(const struct json *json, uint32_t node);

/* Any whole number of at most 16 digits. */
uint32_t whole_states(uint32_t next);

#endif
