/* The chain after the penalties: top-k, temperature, top-p, min-p, draw (clause 2.7).
 *
 * Every filter keeps a prefix of one order, so no step sorts the row: the few hundred best candidates nearly always
 * decide. What lies behind them counts only by its mass, of which bounds suffice. Where they do not decide, a prefix
 * sixteen times as long is taken, and in the end the whole row. Each gives the token that sorting the whole row would
 * give.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "row.h"
#include "sealhost.h"

struct chain {
    struct scale scale;
    uint32_t top_k; /* at least 1; UINT32_MAX: off */
    double top_p;   /* 1 or more: off */
    double min_p;   /* 0 or less: off */
    double u;       /* [0, 1) */
};

/* Whether temperature, top_p, min_p and repetition_penalty are in their ranges: SEALHOST_OK, or an error with its text. */
int32_t chain_check(const struct sealhost_row *parameters);

/* One token by what the request asks for, temperature 0 included; `best` is the row's, and above -inf. */
uint32_t chain_token(const struct row *row, const struct sealhost_row *parameters, struct candidate best);

/* Draws one token; scale.max is the row's maximum and above -inf. */
uint32_t chain_draw(const struct row *row, const struct chain *chain);

#endif
