/* How a row's logits are spread: counted once into 4,096 bins, with the sums that give each bin's mass at any temperature.
 *
 * Logits become integers, multiples of a power of two, and of each bin three sums are kept: how many there are, of their
 * distances t from its upper edge, and of t^2. So the mass of a bin, the sum of e^(-beta (c + t')) with t' around its
 * centre c, is e^(-beta c) (n - beta S1 + beta^2 S2 / 2) within n (beta width / 2)^3 / 6: some 1e-8 of it where a bin is
 * as narrow as asked for. A pass costs about 1.5 ns a logit, a third of summing the exponentials.
 *
 * There is one spectrum at a time.
 */
#ifndef SPECTRUM_H
#define SPECTRUM_H

#include "row.h"

#define BINS 4096u

struct spectrum {
    double max;       /* the row's, finite */
    double width;     /* of a bin, in logits */
    double quantum;   /* what logits are multiples of */
    double per_logit; /* 1 / quantum */
    int32_t origin;   /* the upper edge of bin 0, in quanta: at or barely above the maximum */
    uint32_t shift;   /* a bin is 2^shift quanta */
    uint32_t count;   /* logits above -inf ... */
    uint32_t counted; /* ... that are in a bin; the others lie further from the maximum than BINS * width */
    uint32_t bins;    /* all behind the first `bins` are empty */
};

extern uint32_t spectrum_counts[BINS];
extern double spectrum_masses[BINS]; /* by spectrum_weigh() */

/* Counts a row whose maximum, finite, is `max`; bins are at most 1/64 of a temperature of 1 / beta wide, and cover all
 * logits or at least 64 temperatures. 0: they cannot, for the numbers are too large for such bins. */
int spectrum_take(struct spectrum *spectrum, const struct row *row, double max, double beta);

/* What a spectrum knows of the weights e^(beta (x - max)), for any beta; the error grows with its third power. */
struct weighed {
    double mass;
    double error;          /* relative, of the mass and of every sum of the bins' masses from the first one on */
    double weighted;       /* sum of the weights times beta (max - x) */
    double weighted_error; /* absolute */
};

struct weighed spectrum_weigh(const struct spectrum *spectrum, double beta);

/* The bin of a logit; BINS: in none. */
uint32_t spectrum_bin(const struct spectrum *spectrum, double logit);

/* Candidates of bins `first` to `last` whose logits lie within [least, most], as row_gather() gives them. */
uint32_t spectrum_gather(
    const struct spectrum *spectrum, const struct row *row, uint32_t first, uint32_t last, double least, double most,
    struct candidate *out);

/* Whether a bin's logits are all the same, and none of them is adjusted. */
int spectrum_is_tied(const struct spectrum *spectrum, const struct row *row, uint32_t bin, float *value);

#endif
