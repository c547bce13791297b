/* Sigma of a row's logits within bounds, for a quarter of what the exact one takes: nearly always no logit lies between
 * the floors that they give, and then it does not matter which sigma is right.
 *
 * Logits are rounded to multiples of a quantum, at most half of it away, and standard deviation is a seminorm: it changes
 * by no more than the largest rounding. Of the multiples, 16-bit integers, sums are exact, so no order of summation
 * matters, and integers need no look for NaN behind each operation. The integers reach from the maximum to a depth that a
 * sample guesses; that no logit lies deeper is known by counting.
 */
#ifndef SIGMA_BOUNDS_H
#define SIGMA_BOUNDS_H

#include "row.h"

struct sigma_bounds {
    double least, most;
};

/* Where the integers tell nothing, both are row_sigma(). */
struct sigma_bounds row_sigma_bounds(const struct row *row, double max);

#endif
