/* The chain after the penalties: top-k, temperature, top-p, min-p, draw (clause 2.7).
 *
 * Every filter keeps a prefix of one order, so no step sorts the row: the few hundred best candidates nearly always
 * decide. What lies behind them counts only by its mass, of which bounds suffice. Where they do not decide, the row's
 * spectrum does, whose masses are bounds, too. And where these are too far apart, longer prefixes and exact sums. Each
 * gives the token that sorting the whole row would give.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "row.h"
#include "spectrum.h"
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

/* What is known of a draw: that the logits lie from `floor` to `ceiling`, and 1 / T between two bounds. */
struct window {
    double floor, ceiling;
    double least_inverse, most_inverse;
};

/* Draws from a row whose spectrum is taken, and holds all that the window does. NO_TOKEN: it is not known well enough. */
uint32_t chain_draw_between(
    const struct row *row, const struct spectrum *spectrum, const struct window *window, double u);

/* Draws one token; scale.max is the row's maximum and above -inf. */
uint32_t chain_draw(const struct row *row, const struct chain *chain);

#endif
