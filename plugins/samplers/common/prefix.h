/* The best candidates of a row: a prefix of the order "larger logit first, then the lower id", sorted only where
 * somebody looks.
 *
 * A large prefix is counted into 4,096 ranges of logits, buckets: their counts and masses tell in which bucket a filter
 * ends or a draw falls, and only that one is sorted. A small prefix is one bucket. That of a whole row is a spectrum: only
 * the buckets that are looked at are ever gathered.
 *
 * There is one prefix at a time; its arrays are this file's, and free for others while there is none.
 */
#ifndef PREFIX_H
#define PREFIX_H

#include "limits.h"
#include "row.h"
#include "spectrum.h"

extern struct candidate scratch_candidates[VOCAB_CAPACITY], scratch_sorted[VOCAB_CAPACITY];
extern struct candidate scratch_spare[VOCAB_CAPACITY];
extern double scratch_weights[VOCAB_CAPACITY];

struct prefix {
    struct scale scale;
    uint32_t count;
    int complete;     /* no candidate lies outside */
    float least;      /* every logit that reaches it is among them */
    uint32_t buckets; /* all behind them are empty */
    double per_logit; /* bucket b holds the logits from max - b / per_logit down; 0: there is one bucket */
    uint32_t opened;  /* the bucket that lies sorted */
    int tied;         /* its logits are all `value`, and it is not sorted but counted */
    float value;
    const struct row *row;
    const struct spectrum *spectrum; /* whose bins the buckets are: nothing is gathered; 0: all is */
    double floor, ceiling;           /* of a spectrum's logits, those that are there */
};

/* A candidate as an end: the index-th of its bucket, and the mass up to and including it. */
struct place {
    uint32_t bucket, index;
    double mass;
    int found;
};

/* A logit that about `wanted` candidates reach; -inf: all do. */
float prefix_threshold(const struct row *row, uint32_t wanted);

/* The prefix of about `wanted` candidates; only the speed depends on how many it becomes. None when there are more than
 * `most`. */
void prefix_take(struct prefix *prefix, const struct row *row, struct scale scale, uint32_t wanted, uint32_t most);

/* The same from a spectrum and its masses: all of the row, or what lies in its bins, whose masses have an error. */
void prefix_of_spectrum(
    struct prefix *prefix, const struct row *row, struct scale scale, const struct spectrum *spectrum);

/* Leaves of a spectrum's prefix what lies from `floor` to `ceiling`. */
void prefix_restrict(struct prefix *prefix, double floor, double ceiling);

/* The last of its first `count` candidates; of all, when it has fewer. */
struct place prefix_by_count(struct prefix *prefix, uint32_t count);

/* The first candidate, up to `end`, with which the mass is at least `target` (`beyond`: above it). */
struct place prefix_by_mass(struct prefix *prefix, struct place end, double target, int beyond);

/* The last candidate before the first one, up to `end`, that weighs less than `weight`; the best one always counts. */
struct place prefix_by_weight(struct prefix *prefix, struct place end, double weight);

uint32_t prefix_id(struct prefix *prefix, struct place place);
double prefix_weight(struct prefix *prefix, struct place place);

/* The logit at a place, where no later candidate has the same one; else NaN. */
double prefix_last_logit(struct prefix *prefix, struct place place);

#endif
