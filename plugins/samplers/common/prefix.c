#include "prefix.h"

#include "sort.h"
#include "survey.h"
#include "ties.h"

#define BUCKETS 4096u
#define LAST (BUCKETS - 1)
#define ONE_BUCKET 2048u /* up to this many candidates sorting is faster than counting first */

/* What lies further below the maximum than this, in units of T, has less than 3e-15 of its mass in all. */
#define DEPTH 46.0

struct candidate scratch_candidates[VOCAB_CAPACITY], scratch_sorted[VOCAB_CAPACITY], scratch_spare[VOCAB_CAPACITY];
double scratch_weights[VOCAB_CAPACITY];

#define candidates scratch_candidates
#define sorted scratch_sorted
#define spare scratch_spare
#define weights scratch_weights /* of `sorted`, and before that of `candidates` */

static uint16_t buckets[VOCAB_CAPACITY]; /* of `candidates` */
static uint32_t counts[BUCKETS];
static double masses[BUCKETS];

float prefix_threshold(const struct row *row, uint32_t wanted) {
    return row->count <= ONE_BUCKET ? (float)MINUS_INFINITY : survey_threshold(row->count, wanted);
}

static uint16_t bucket_of(const struct prefix *prefix, double logit) {
    double bucket = (prefix->scale.max - logit) * prefix->per_logit;
    return bucket < LAST ? (uint16_t)bucket : LAST;
}

static void count_all(const struct prefix *prefix) {
    for (uint32_t b = 0; b < prefix->buckets; b++) {
        counts[b] = 0;
        masses[b] = 0;
    }
    for (uint32_t i = 0; i < prefix->count; i++) {
        buckets[i] = prefix->per_logit > 0 ? bucket_of(prefix, candidates[i].logit) : 0;
        counts[buckets[i]]++;
        masses[buckets[i]] += weights[i];
    }
}

/* Distance from the maximum over which buckets are spread: up to the last candidate, if that matters. */
static double range_of(const struct prefix *prefix) {
    double last = prefix->scale.max, depth = DEPTH / prefix->scale.inverse;
    for (uint32_t i = 0; i < prefix->count; i++)
        if (candidates[i].logit < last)
            last = candidates[i].logit;
    double range = prefix->scale.max - last;
    return depth < range ? depth : range;
}

void prefix_take(struct prefix *prefix, const struct row *row, struct scale scale, uint32_t wanted, uint32_t most) {
    int infinite = scale.max == __builtin_inf(); /* then those at +inf share all of the mass */
    float least = infinite ? __builtin_inff() : prefix_threshold(row, wanted);
    *prefix = (struct prefix){.scale = scale, .least = least, .opened = NO_TOKEN, .row = row};
    prefix->complete = infinite || least == (float)MINUS_INFINITY;
    prefix->count = row_gather_some(row, least, most, candidates);
    double range = prefix->count > ONE_BUCKET ? range_of(prefix) : 0;
    prefix->per_logit = range > 1e-300 ? BUCKETS / range : 0;
    prefix->buckets = prefix->per_logit > 0 ? BUCKETS : 1;
    weights_of(candidates, prefix->count, scale, weights);
    count_all(prefix);
}

_Static_assert(BINS == BUCKETS, "a spectrum's bins are buckets");

void prefix_of_spectrum(
    struct prefix *prefix, const struct row *row, struct scale scale, const struct spectrum *spectrum) {
    *prefix = (struct prefix){
        .scale = scale, .opened = NO_TOKEN, .row = row, .spectrum = spectrum, .per_logit = 1 / spectrum->width,
        .buckets = spectrum->bins,
        .count = spectrum->counted, .complete = spectrum->counted == spectrum->count,
        .floor = MINUS_INFINITY, .ceiling = __builtin_inf()};
    __builtin_memcpy(counts, spectrum_counts, prefix->buckets * sizeof *counts);
    __builtin_memcpy(masses, spectrum_masses, prefix->buckets * sizeof *masses);
}

static uint32_t gather_bucket(struct prefix *prefix, uint32_t bucket) {
    if (prefix->spectrum)
        return spectrum_gather(
            prefix->spectrum, prefix->row, bucket, bucket, prefix->floor, prefix->ceiling, sorted);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < prefix->count; i++)
        if (buckets[i] == bucket)
            sorted[kept++] = candidates[i];
    return kept;
}

#define MANY 8192u /* candidates that are worth two passes to learn that they are all the same */

/* Brings a bucket's candidates into `sorted`, and their weights into `weights`; of a tied one only the first. */
static void open_bucket(struct prefix *prefix, uint32_t bucket) {
    if (prefix->opened == bucket)
        return;
    prefix->opened = bucket;
    prefix->tied = prefix->spectrum && counts[bucket] > MANY &&
                   spectrum_is_tied(prefix->spectrum, prefix->row, bucket, &prefix->value);
    if (prefix->tied) {
        weights[0] = weight_of(prefix->value, prefix->scale);
        return;
    }
    uint32_t kept = gather_bucket(prefix, bucket);
    sort_candidates(sorted, spare, kept);
    weights_of(sorted, kept, prefix->scale, weights);
}

static double opened_weight(const struct prefix *prefix, uint32_t index) {
    return weights[prefix->tied ? 0 : index];
}

/* Weighs what is left of a bucket at an end. */
static void cut_bucket(struct prefix *prefix, uint32_t bucket) {
    prefix->opened = NO_TOKEN;
    counts[bucket] = gather_bucket(prefix, bucket);
    weights_of(sorted, counts[bucket], prefix->scale, weights);
    masses[bucket] = 0;
    for (uint32_t i = 0; i < counts[bucket]; i++)
        masses[bucket] += weights[i];
}

void prefix_restrict(struct prefix *prefix, double floor, double ceiling) {
    double top = ceiling < prefix->spectrum->max ? ceiling : prefix->spectrum->max;
    uint32_t first = spectrum_bin(prefix->spectrum, top), last = spectrum_bin(prefix->spectrum, floor);
    prefix->floor = floor;
    prefix->ceiling = ceiling;
    prefix->count = 0;
    prefix->complete = 1;
    for (uint32_t b = 0; b < prefix->buckets; b++) {
        if (b < first || b > last)
            counts[b] = 0;
        if (b == first || b == last)
            cut_bucket(prefix, b);
        masses[b] = counts[b] ? masses[b] : 0;
        prefix->count += counts[b];
    }
}

/* How many candidates of a bucket lie up to `end`. */
static uint32_t size_up_to(struct place end, uint32_t bucket) {
    return bucket < end.bucket ? counts[bucket] : end.index + 1;
}

struct place prefix_by_count(struct prefix *prefix, uint32_t count) {
    struct place end = {0, 0, 0, 1};
    for (uint32_t b = 0; b < prefix->buckets && count; b++) {
        uint32_t taken = counts[b] < count ? counts[b] : count;
        if (!taken)
            continue;
        end = (struct place){b, taken - 1, end.mass, 1};
        if (taken == counts[b]) {
            end.mass += masses[b];
        } else {
            open_bucket(prefix, b);
            for (uint32_t i = 0; i < taken && !prefix->tied; i++)
                end.mass += weights[i];
            end.mass += prefix->tied ? taken * weights[0] : 0;
        }
        count -= taken;
    }
    return end;
}

/* Walks through one bucket from the mass `sum` on. */
static struct place mass_in_bucket(
    struct prefix *prefix, uint32_t bucket, uint32_t size, double sum, double target, int beyond) {
    open_bucket(prefix, bucket);
    double skipped = prefix->tied ? (target - sum) / weights[0] - 2 : 0; /* of ties, all but the last few */
    uint32_t first = skipped > 0 ? skipped < size ? (uint32_t)skipped : size : 0;
    sum += first * weights[0];
    for (uint32_t i = first; i < size; i++) {
        sum += opened_weight(prefix, i);
        if (beyond ? sum > target : sum >= target)
            return (struct place){bucket, i, sum, 1};
    }
    return (struct place){0};
}

struct place prefix_by_mass(struct prefix *prefix, struct place end, double target, int beyond) {
    double before = 0;
    for (uint32_t b = 0; b <= end.bucket; b++) {
        double after = b < end.bucket ? before + masses[b] : end.mass;
        uint32_t size = size_up_to(end, b);
        if (size && (beyond ? after > target : after >= target)) {
            struct place place = mass_in_bucket(prefix, b, size, before, target, beyond);
            if (place.found)
                return place; /* else the last bits of the sums differ: it is the next one */
        }
        before = after;
    }
    return (struct place){0};
}

/* Whether all of a bucket weighs at least `weight`: told by its lower edge. */
static int all_weigh(const struct prefix *prefix, uint32_t bucket, double weight) {
    if (prefix->per_logit == 0 || bucket == LAST)
        return 0;
    return weight_of(prefix->scale.max - (bucket + 1.01) / prefix->per_logit, prefix->scale) >= weight;
}

/* How many buckets from the first one on are known to weigh at least `weight`: a bisection. */
static uint32_t buckets_weighing(const struct prefix *prefix, double weight) {
    uint32_t known = 0, unknown = prefix->buckets;
    while (known < unknown) {
        uint32_t middle = (known + unknown) / 2;
        if (all_weigh(prefix, middle, weight))
            known = middle + 1;
        else
            unknown = middle;
    }
    return known;
}

struct place prefix_by_weight(struct prefix *prefix, struct place end, double weight) {
    struct place kept = {0};
    uint32_t known = buckets_weighing(prefix, weight);
    for (uint32_t b = 0; b <= end.bucket; b++) {
        uint32_t size = size_up_to(end, b);
        if (!size)
            continue;
        if (b < known) {
            kept = (struct place){b, size - 1, kept.mass + masses[b], 1};
            continue;
        }
        open_bucket(prefix, b);
        for (uint32_t i = 0; i < size; i++) {
            if (kept.found && opened_weight(prefix, i) < weight)
                return kept;
            kept = (struct place){b, i, kept.mass + opened_weight(prefix, i), 1};
        }
    }
    return (struct place){0};
}

double prefix_weight(struct prefix *prefix, struct place place) {
    open_bucket(prefix, place.bucket);
    return opened_weight(prefix, place.index);
}

uint32_t prefix_id(struct prefix *prefix, struct place place) {
    open_bucket(prefix, place.bucket);
    return prefix->tied ? ties_id(prefix->row, prefix->value, place.index) : sorted[place.index].id;
}

double prefix_last_logit(struct prefix *prefix, struct place place) {
    open_bucket(prefix, place.bucket);
    uint32_t next = place.index + 1, count = counts[place.bucket];
    double logit = prefix->tied ? prefix->value : sorted[place.index].logit;
    if (next < count && (prefix->tied || sorted[next].logit == logit))
        return __builtin_nan("");
    return logit; /* the next bucket's are lower */
}
