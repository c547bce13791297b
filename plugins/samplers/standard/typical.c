#include "typical.h"

#include "moments.h"
#include "prefix.h"
#include "sort.h"

#define RANGES 1024u
#define LAST (RANGES - 1)
#define DEEPEST 64.0 /* nats: what lies further from the entropy is one range, as it has next to no mass */

#define nearest scratch_sorted /* of one range; logit: -distance */

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
        nearest[found++] = (struct candidate){-distance, list[i].id, i};
    }
    sort_candidates(nearest, scratch_spare, found);
    uint32_t last = 0;
    for (;; last++) {
        place->before += weights[nearest[last].place];
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
        struct candidate one = {-distance_of(list[i], &measure), list[i].id, 0};
        if (!comes_before(&last, &one))
            list[kept++] = list[i];
    }
    return kept;
}

#define FAR 1e300 /* nats: there is nothing more */

/* The order by distance goes outwards from the entropy, on both sides at once. */
struct walk {
    const struct spectrum *spectrum;
    struct measure measure; /* offset: minus the entropy's distance from the maximum, in nats */
    double width, above;    /* nats: of a bin, and from the maximum up to the first one's upper edge */
};

/* Distance from the maximum, in bins from the first one's upper edge. */
static double bins_at(const struct walk *walk, double nats) {
    return (nats + walk->above) / walk->width;
}

/* How far out the walk has come, in nats, when the bins that it has met hold `target`; below 0: they never do. */
static double reach_of(const struct walk *walk, double target) {
    double entropy = -walk->measure.offset, place = bins_at(walk, entropy);
    if (!(place >= 0 && place < walk->spectrum->bins))
        return -1;
    uint32_t first = (uint32_t)place, behind = first + 1;
    double mass = spectrum_masses[first], reach = 0;
    while (mass < target) {
        double up = first ? entropy - (walk->width * first - walk->above) : FAR;
        double down = behind < walk->spectrum->bins ? walk->width * behind - walk->above - entropy : FAR;
        if (up == FAR && down == FAR)
            return -1;
        reach = up < down ? up : down;
        mass += spectrum_masses[up < down ? --first : behind++];
    }
    return reach;
}

#define logits scratch_weights /* of the nearest ones, by their places */

static uint32_t gather_nearest(
    const struct walk *walk, const struct row *row, uint32_t first, uint32_t last, uint32_t found) {
    uint32_t more = spectrum_gather(
        walk->spectrum, row, first, last, MINUS_INFINITY, __builtin_inf(), scratch_candidates);
    for (uint32_t i = 0; i < more; i++) {
        struct candidate one = scratch_candidates[i];
        logits[found] = one.logit;
        nearest[found] = (struct candidate){-distance_of(one, &walk->measure), one.id, found};
        found++;
    }
    return found;
}

/* The first of `count` nearest ones with which the mass, `core` before them, comes to `target`; `count`: none. */
static uint32_t first_reaching(const struct walk *walk, uint32_t count, double core, double target) {
    for (uint32_t i = 0; i < count; i++) {
        core += weight_of(logits[nearest[i].place], walk->measure.scale);
        if (core >= target)
            return i;
    }
    return count;
}

/* Between the last that is kept and the next one, which is further off; those that are not listed lie beyond `limit`. 0:
 * somebody is so near that it cannot be told. */
static double radius_at(uint32_t last, uint32_t count, double limit, double blur) {
    double distance = -nearest[last].logit, next = last + 1 < count ? -nearest[last + 1].logit : limit;
    next = next < limit ? next : limit;
    int apart = last == 0 || logits[nearest[last].place] == logits[nearest[last - 1].place] ||
                distance + nearest[last - 1].logit > 2 * blur;
    return apart && next - distance > 2 * blur ? (next + distance) / 2 : 0;
}

int typical_window(
    const struct spectrum *spectrum, const struct row *row, const struct weighed *sums, double beta, double p,
    double *floor, double *ceiling) {
    double low = (sums->weighted - sums->weighted_error) / (sums->mass * (1 + sums->error));
    double high = (sums->weighted + sums->weighted_error) / (sums->mass * (1 - sums->error));
    double entropy = (low + high) / 2, blur = (high - low) / 2 + 1e-12 * (1 + high);
    double slack = 2.1 * sums->error, target = p * sums->mass;
    struct walk walk = {
        spectrum, {{spectrum->max, beta}, -entropy}, beta * spectrum->width,
        beta * (spectrum->origin * spectrum->quantum - spectrum->max)};
    double reach = reach_of(&walk, target * (1 + slack));
    if (reach < 0 || spectrum->counted < spectrum->count)
        return 0;
    double up = bins_at(&walk, entropy - reach), down = bins_at(&walk, entropy + reach);
    uint32_t last_up = up > 0 ? (uint32_t)up : 0, first_up = last_up ? last_up - 1 : 0; /* who may lie at the end */
    uint32_t end = spectrum->bins - 1, first_down = down < end ? (uint32_t)down : end;
    uint32_t last_down = first_down < end ? first_down + 1 : end, count = 0;
    int apart = last_up < first_down;
    double core = 0;
    for (uint32_t b = last_up + 1; b < first_down; b++)
        core += spectrum_masses[b];
    count = gather_nearest(&walk, row, first_up, apart ? last_up : last_down, count);
    count = apart ? gather_nearest(&walk, row, first_down, last_down, count) : count;
    sort_candidates(nearest, scratch_spare, count);
    uint32_t last = first_reaching(&walk, count, core, target * (1 - slack));
    if (last == count || last != first_reaching(&walk, count, core, target * (1 + slack)))
        return 0;
    if (core > 0 && (core >= target * (1 - slack) || -nearest[last].logit < reach + 2 * blur))
        return 0; /* it may be one of those that are not listed */
    double above = first_up ? entropy - (walk.width * first_up - walk.above) : FAR;
    double below = last_down < end ? walk.width * (last_down + 1) - walk.above - entropy : FAR;
    double radius = radius_at(last, count, above < below ? above : below, blur);
    *floor = spectrum->max - (entropy + radius) / beta;
    *ceiling = spectrum->max - (entropy - radius) / beta;
    return radius > 0;
}
