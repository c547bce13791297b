/* Sums over what a pool has left: the whole row in SIMD, or a list. */
#ifndef MOMENTS_H
#define MOMENTS_H

#include "row.h"

struct moments {
    double mass;     /* sum of the weights w = e^d, d = beta (x - max) */
    double weighted; /* sum of w d: entropy = ln mass - weighted / mass */
    uint32_t count;  /* candidates: above -inf */
};

struct moments row_moments(const struct row *row, struct scale scale);
struct moments list_moments(const struct candidate *list, const double *weights, uint32_t count, struct scale scale);

/* Standard deviation of the logits, over the population. The largest is among them at a distance of 0, so the mean's
 * square is at most count times the variance: one pass loses at most 6 of float64's 16 digits. */
double row_sigma(const struct row *row, double max);
double list_sigma(const struct candidate *list, uint32_t count, double max);

#endif
