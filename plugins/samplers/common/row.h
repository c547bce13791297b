/* One row of logits as the chain sees it, and the passes over it.
 *
 * Ids that a bias or a penalty touches are few. Their float64 values lie in a list beside the logits, and their
 * places among the logits hold -inf while the row is worked on (adjust.h). So the long passes stay SIMD over
 * float32, and nothing is rounded.
 */
#ifndef ROW_H
#define ROW_H

#include <stdint.h>

#define NO_TOKEN 0xFFFFFFFFu
#define MINUS_INFINITY (-__builtin_inf())

struct adjusted {
    double value;
    uint32_t id;
    uint32_t generated; /* times that the id was generated */
    float original;     /* what the logits held */
    uint32_t seen : 1;      /* whether the history holds the id */
    uint32_t repeated : 31; /* ids of the longest run that the id would go on repeating; see standard/dry.h */
};

/* An id that may be drawn. Order: larger logit first, then the lower id. */
struct candidate {
    double logit;
    uint32_t id;
    uint32_t place; /* for whoever sorts, to find again what belongs to it */
};

struct row {
    float *logits; /* 16-aligned; NaN counts as -inf */
    uint32_t count;
    struct adjusted *adjusted; /* each id once, in no order */
    uint32_t adjusted_count;
    int is_known; /* whether `rest` is the best of the logits that are not adjusted */
    struct candidate rest;
};

/* The largest logit and the lowest id that has it; a logit of -inf, and any id, when there is no number. Comes before all
 * else that is asked of a row: it takes the survey (survey.h), once unless the best logit of the rest leaves it. */
struct candidate row_best(struct row *row);

/* Candidates with a logit >= least (-inf: all above it), by ascending id but for the adjusted ones, which come last.
 * `out` has room for `count` of the row. Returns their number. row_gather_some() stops where it has found more than
 * `most`, and returns 0. */
uint32_t row_gather(const struct row *row, float least, struct candidate *out);
uint32_t row_gather_some(const struct row *row, float least, uint32_t most, struct candidate *out);

/* The same with a logit from `least` to `most`, and perhaps a few beside them: bounds are rounded outwards. */
uint32_t row_gather_within(const struct row *row, double least, double most, struct candidate *out);

/* The smallest logit above -inf, +inf when there is none, and how many there are. */
struct extent {
    double least;
    uint32_t count;
};

struct extent logits_extent(const float *logits, uint32_t count);

/* How logits become weights: w(x) = e^((x - max) / T), so the largest weighs 1. */
struct scale {
    double max;     /* the row's largest logit */
    double inverse; /* 1 / T; finite, as the smallest float32 above 0 is 1e-45 */
};

double weight_of(double logit, struct scale scale);

/* The same for `count` candidates. */
void weights_of(const struct candidate *candidates, uint32_t count, struct scale scale, double *out);

/* Sum of the weights of all logits; scale.max is finite. */
double row_mass(const struct row *row, struct scale scale);

/* The same for the logits below `least` alone, four times as fast, within a relative error of rough_error(scale).
 * Not usable when that is above ROUGH_USABLE. Adjusted logits are summed exactly. */
#define ROUGH_USABLE 1e-2
double rough_error(struct scale scale);
double row_rough_mass(const struct row *row, struct scale scale, float least);

#endif
