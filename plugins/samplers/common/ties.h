/* Logits of a row that are all the same: taken by their number, without a list of them. Adjusted ones are not seen. */
#ifndef TIES_H
#define TIES_H

#include "row.h"

uint32_t ties_count(const struct row *row, float value);

/* The id of the index-th of them, from 0; there are more than that. */
uint32_t ties_id(const struct row *row, float value, uint32_t index);

#endif
