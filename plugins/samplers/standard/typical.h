/* Locally typical sampling (Meister, Pimentel, Wiher, Cotterell: Locally Typical Sampling, TACL 2023).
 *
 * Keeps the candidates whose surprise -ln p is nearest to the entropy, until they hold at least `p` of the probability;
 * at least one. Of equally near ones the lower id comes first.
 */
#ifndef TYPICAL_H
#define TYPICAL_H

#include "moments.h"
#include "row.h"
#include "spectrum.h"

/* What is known of all candidates, in the list or not. */
struct typical {
    struct scale scale;
    struct moments sums;
    double p;
    double least; /* every candidate with such a logit is in the list; -inf: all are */
};

/* `list` in any order, with its weights; what is kept is moved to its beginning, in the same order. Returns how many;
 * 0: those outside the list might be nearer. */
uint32_t typical_keep(struct candidate *list, const double *weights, uint32_t count, const struct typical *typical);

/* The same of a whole row by its spectrum, weighed at `beta`: what is kept is what lies from `floor` to `ceiling`, which
 * are nobody's logits. 0: it cannot be told so. */
int typical_window(
    const struct spectrum *spectrum, const struct row *row, const struct weighed *sums, double beta, double p,
    double *floor, double *ceiling);

#endif
