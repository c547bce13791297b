/* Sorts candidates: larger logit first, then the lower id. */
#ifndef SORT_H
#define SORT_H

#include "row.h"

static inline int comes_before(const struct candidate *a, const struct candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Sorts `count` candidates in place; `spare` has the same room, and no logit is NaN. Few are merged, many distributed by
 * the digits of their logits: linear in their number, unless most differ by less than float32 tells. */
void sort_candidates(struct candidate *candidates, struct candidate *spare, uint32_t count);

#endif
