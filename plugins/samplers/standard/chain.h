/* The chain after the penalties: top-k, temperature, top-p, min-p, draw (clause 2.7).
 *
 * Every filter keeps a prefix of one order: larger logit first, then the lower id. So no step sorts the row:
 *
 *   head.c     sorts the few hundred best candidates; nearly always they decide. The rest then counts only
 *              by its mass, of which bounds suffice.
 *   buckets.c  when the decision lies deeper: counts and masses of 4,096 ranges of logits; only the
 *              ranges in which a filter ends or the draw falls are sorted.
 *
 * Both give the same token: the one that sorting the whole row would give.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "row.h"

struct chain {
    struct scale scale;
    uint32_t top_k; /* at least 1; UINT32_MAX: off */
    double top_p;   /* 1 or more: off */
    double min_p;   /* 0 or less: off */
    double u;       /* [0, 1) */
};

/* Draws one token; scale.max is the row's maximum and above -inf. */
uint32_t chain_draw(const struct row *row, const struct chain *chain);

/* Draws from the best candidates; NO_TOKEN when they do not decide. */
uint32_t head_draw(const struct row *row, const struct chain *chain);

/* Draws from the whole row; scale.max is finite. */
uint32_t buckets_draw(const struct row *row, const struct chain *chain);

/* Work space of either, for every id of a row once. */
extern struct candidate candidates[], spare_candidates[];

#endif
