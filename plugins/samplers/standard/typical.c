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

static void count_ranges(
    const struct candidate *list, const double *weights, uint32_t count, const struct measure *measure) {
    for (uint32_t r = 0; r < RANGES; r++) {
        masses[r] = 0;
        counts[r] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t range = range_of(distance_of(list[i], measure));
        masses[range] += weights[i];
        counts[range]++;
    }
}

/* The range in which the mass comes to `target`, and how much lies before it. */
struct reach {
    uint32_t range;
    double before;
};

static struct reach place_of_mass(double target) {
    uint32_t filled = 0; /* the last one that holds any, should rounding want more than there is */
    for (uint32_t r = 0; r < RANGES; r++)
        filled = counts[r] ? r : filled;
    struct reach place = {0, 0};
    while (place.range < filled && (!counts[place.range] || place.before + masses[place.range] < target))
        place.before += masses[place.range++];
    return place;
}

/* The last one that is kept. Its place in `nearest`, and the mass up to and including it. */
static uint32_t last_kept(
    const struct candidate *list, const double *weights, uint32_t count, const struct measure *measure,
    struct reach *place, double target) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        double distance = distance_of(list[i], measure);
        if (range_of(distance) != place->range)
            continue;
        nearest[found++] = (struct candidate){-distance, list[i].id};
        weights_by_id[list[i].id] = weights[i];
    }
    sort_candidates(nearest, scratch_spare, found);
    uint32_t last = 0;
    for (;; last++) {
        place->before += weights_by_id[nearest[last].id];
        if (place->before >= target || last + 1 == found)
            return last;
    }
}

/* Whether nobody outside the list is as near as `last`: they lie below `least`, further than it from the entropy. */
static int decides(const struct typical *typical, const struct measure *measure, struct candidate last, int reached) {
    if (typical->least == MINUS_INFINITY)
        return 1;
    double below = measure->offset - (typical->least - measure->scale.max) * measure->scale.inverse;
    return reached && below > -last.logit;
}

uint32_t typical_keep(struct candidate *list, const double *weights, uint32_t count, const struct typical *typical) {
    /* ln mass - (ln mass - weighted / mass) */
    struct measure measure = {typical->scale, typical->sums.weighted / typical->sums.mass};
    double target = typical->p * typical->sums.mass;
    count_ranges(list, weights, count, &measure);
    struct reach place = place_of_mass(target);
    struct candidate last = nearest[last_kept(list, weights, count, &measure, &place, target)];
    if (!decides(typical, &measure, last, place.before >= target))
        return 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct candidate one = {-distance_of(list[i], &measure), list[i].id};
        if (!comes_before(&last, &one))
            list[kept++] = list[i];
    }
    return kept;
}
