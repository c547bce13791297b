/* Locally typical sampling (Meister, Pimentel, Wiher, Cotterell: Locally Typical Sampling, TACL 2023).
 *
 * Keeps the candidates whose surprise -ln p is nearest to the entropy, until they hold at least `p` of the probability;
 * at least one. Of equally near ones the lower id comes first.
 */
#ifndef TYPICAL_H
#define TYPICAL_H

#include "row.h"

/* `list` in any order, with its weights; what is kept is moved to its beginning, in the same order. Returns how many. */
uint32_t typical_keep(struct candidate *list, const double *weights, uint32_t count, struct scale scale, double p);

#endif
