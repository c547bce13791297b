/* Sorts candidates: larger logit first, then the lower id. */
#ifndef SORT_H
#define SORT_H

#include "row.h"

static inline int comes_before(const struct candidate *a, const struct candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* A merge sort of `count` candidates in place; `spare` has the same room. O(n log n), O(n) when they are in order. */
void sort_candidates(struct candidate *candidates, struct candidate *spare, uint32_t count);

#endif
