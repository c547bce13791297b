/* Splits a text into the pieces inside which BPE may merge, by the steps of a rule.
 *
 * Each step splits what the steps before it left in one. A scan of n bytes looks at each of them a fixed number of times
 * for each step, so its time is linear in n.
 */
#ifndef SPLIT_H
#define SPLIT_H

#include <stdint.h>

#include "rules.h"

/* State of a scan over [at, end); `at` moves on with each piece. */
struct scan {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *ends[MOST_STEPS]; /* where the part that a step made ends; at or before `at`: it is used up */
};

/* End of the piece that starts at scan->at, which must be below scan->end; moves scan->at there. */
const uint8_t *next_piece(struct scan *scan);

#endif
