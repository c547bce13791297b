#include "typical.h"

#include "moments.h"
#include "prefix.h"
#include "sort.h"

#define RANGES 1024u
#define LAST (RANGES - 1)
#define DEEPEST 64.0 /* nats: what lies further from the entropy is one range, as it has next to no mass */

#define nearest scratch_sorted /* of one range; logit: -distance */

static double weights_by_id[VOCAB_CAPACITY];
static double masses[RANGES];
static uint32_t counts[RANGES];

/* |-ln p - entropy| = |offset - d|, with d the scaled distance from the largest logit. */
struct measure {
    struct scale scale;
    double offset;
};

static double distance_of(struct candidate one, const struct measure *measure) {
    double distance = measure->offset - (one.logit - measure->scale.max) * measure->scale.inverse;
    return distance < 0 ? -distance : distance;
}

static uint32_t range_of(double distance) {
    double range = distance * (LAST / DEEPEST);
    return range < LAST ? (uint32_t)range : LAST;
}

/* Counts the list into ranges. */
static struct measure count_ranges(
    const struct candidate *list, const double *weights, uint32_t count, struct scale scale) {
    struct moments sums = list_moments(list, weights, count, scale);
    struct measure measure = {scale, sums.weighted / sums.mass}; /* ln mass - (ln mass - weighted / mass) */
    for (uint32_t r = 0; r < RANGES; r++) {
        masses[r] = 0;
        counts[r] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t range = range_of(distance_of(list[i], &measure));
        masses[range] += weights[i];
        counts[range]++;
    }
    return measure;
}

/* The last one that is kept, found within one range: those before it in the order of distances hold `before`. */
static struct candidate last_kept(
    const struct candidate *list, const double *weights, uint32_t count, const struct measure *measure, uint32_t range,
    double before, double target) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        double distance = distance_of(list[i], measure);
        if (range_of(distance) != range)
            continue;
        nearest[found++] = (struct candidate){-distance, list[i].id};
        weights_by_id[list[i].id] = weights[i];
    }
    sort_candidates(nearest, scratch_spare, found);
    uint32_t last = 0;
    for (; last + 1 < found; last++) {
        before += weights_by_id[nearest[last].id];
        if (before >= target)
            break;
    }
    return nearest[last];
}

uint32_t typical_keep(struct candidate *list, const double *weights, uint32_t count, struct scale scale, double p) {
    struct measure measure = count_ranges(list, weights, count, scale);
    double target = 0, before = 0;
    for (uint32_t r = 0; r < RANGES; r++)
        target += masses[r];
    target *= p;
    uint32_t range = 0, filled = 0;
    for (uint32_t r = 0; r < RANGES; r++) /* the last one that holds any, should rounding want more than there is */
        filled = counts[r] ? r : filled;
    while (range < filled && (!counts[range] || before + masses[range] < target))
        before += masses[range++];
    struct candidate last = last_kept(list, weights, count, &measure, range, before, target);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct candidate one = {-distance_of(list[i], &measure), list[i].id};
        if (!comes_before(&last, &one))
            list[kept++] = list[i];
    }
    return kept;
}
