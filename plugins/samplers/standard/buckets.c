#include "chain.h"
#include "limits.h"
#include "sort.h"

#define BUCKETS 4096u
#define LAST (BUCKETS - 1)

/* Without top-k what lies further below the maximum than this has less than 3e-15 of its mass in all. */
#define DEPTH 46.0

/* Bucket b holds the logits from max - b / per_logit down; the last one all the rest. */
static double per_logit;
static uint32_t counts[BUCKETS];
static double masses[BUCKETS];

/* The bucket whose candidates lie sorted in `candidates`. */
static uint32_t opened;

/* A candidate as the end of a prefix: the index-th of its bucket, and the mass up to and including it. */
struct place {
    uint32_t bucket, index;
    double mass;
};

static uint32_t bucket_of(double logit, double max) {
    double bucket = (max - logit) * per_logit;
    return bucket < LAST ? (uint32_t)bucket : LAST;
}

static void count_in(double logit, double weight, double max) {
    if (!(logit > MINUS_INFINITY))
        return;
    uint32_t bucket = bucket_of(logit, max);
    counts[bucket]++;
    masses[bucket] += weight;
}

static void count_all(const struct row *row, const struct scale *scale) {
    uint32_t id = 0;
    for (; id + ROW_GROUP <= row->count; id += ROW_GROUP) {
        double weights[ROW_GROUP];
        row_weights(row, id, *scale, weights);
        for (uint32_t i = 0; i < ROW_GROUP; i++)
            count_in(row->logits[id + i], weights[i], scale->max);
    }
    for (; id < row->count; id++)
        count_in(row->logits[id], weight_of(row->logits[id], *scale), scale->max);
    for (uint32_t i = 0; i < row->adjusted_count; i++)
        count_in(row->adjusted[i].value, weight_of(row->adjusted[i].value, *scale), scale->max);
}

static void fill(const struct row *row, const struct chain *chain) {
    double range = chain->scale.max - row_min(row), depth = DEPTH / chain->scale.inverse;
    if (chain->top_k == UINT32_MAX && depth < range)
        range = depth;
    per_logit = range > 1e-300 ? BUCKETS / range : 0;
    opened = NO_TOKEN;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        counts[b] = 0;
        masses[b] = 0;
    }
    count_all(row, &chain->scale);
}

/* Brings a bucket's candidates into `candidates`, sorted. */
static void open_bucket(const struct row *row, const struct chain *chain, uint32_t bucket) {
    if (opened == bucket)
        return;
    double max = chain->scale.max, least = MINUS_INFINITY, most = __builtin_inf();
    if (per_logit > 0) { /* a little wider than the bucket, whose exact edge bucket_of() decides */
        least = bucket == LAST ? least : max - (bucket + 1.001) / per_logit;
        most = max - (bucket - 0.001) / per_logit;
    }
    uint32_t found = row_gather(row, least, most, candidates), kept = 0;
    for (uint32_t i = 0; i < found; i++)
        if (bucket_of(candidates[i].logit, max) == bucket)
            candidates[kept++] = candidates[i];
    sort_candidates(candidates, spare_candidates, kept);
    opened = bucket;
}

static double weight_at(const struct chain *chain, uint32_t index) {
    return weight_of(candidates[index].logit, chain->scale);
}

/* The last of the k best, or of all. */
static struct place by_count(const struct row *row, const struct chain *chain) {
    struct place end = {0, 0, 0};
    uint32_t left = chain->top_k;
    for (uint32_t b = 0; b < BUCKETS && left; b++) {
        if (!counts[b])
            continue;
        uint32_t taken = counts[b] < left ? counts[b] : left;
        end = (struct place){b, taken - 1, end.mass};
        if (taken == counts[b])
            end.mass += masses[b];
        else
            open_bucket(row, chain, b);
        for (uint32_t i = 0; taken < counts[b] && i < taken; i++)
            end.mass += weight_at(chain, i);
        left -= taken;
    }
    return end;
}

/* The first candidate up to which the mass is at least `target` (`beyond`: above it); `end` when there is none. */
static struct place by_mass(
    const struct row *row, const struct chain *chain, struct place end, double target, int beyond) {
    double before = 0;
    for (uint32_t b = 0; b <= end.bucket; b++) {
        double mass = b < end.bucket ? masses[b] : end.mass - before;
        int crosses = beyond ? before + mass > target : before + mass >= target;
        uint32_t stop = b < end.bucket ? counts[b] : end.index + 1;
        if (crosses && stop)
            open_bucket(row, chain, b);
        double sum = before;
        for (uint32_t i = 0; crosses && i < stop; i++) {
            sum += weight_at(chain, i);
            if (beyond ? sum > target : sum >= target)
                return (struct place){b, i, sum};
        }
        before += mass;
    }
    return end;
}

/* The last candidate whose weight is at least min_p. */
static struct place by_weight(const struct row *row, const struct chain *chain, struct place end) {
    struct place kept = {0, 0, 0};
    for (uint32_t b = 0; b <= end.bucket; b++) {
        uint32_t stop = b < end.bucket ? counts[b] : end.index + 1;
        double edge = per_logit > 0 && b < LAST ? chain->scale.max - (b + 1.001) / per_logit : MINUS_INFINITY;
        int whole = weight_of(edge, chain->scale) >= chain->min_p;
        if (whole && stop)
            kept = b < end.bucket ? (struct place){b, stop - 1, kept.mass + masses[b]} : end;
        if (whole || !stop)
            continue;
        open_bucket(row, chain, b);
        for (uint32_t i = 0; i < stop; i++) {
            double weight = weight_at(chain, i);
            if (weight < chain->min_p)
                return kept;
            kept = (struct place){b, i, kept.mass + weight};
        }
    }
    return end;
}

uint32_t buckets_draw(const struct row *row, const struct chain *chain) {
    fill(row, chain);
    struct place end = by_count(row, chain);
    if (chain->top_p < 1)
        end = by_mass(row, chain, end, chain->top_p * end.mass, 0);
    if (chain->min_p > 0)
        end = by_weight(row, chain, end);
    struct place drawn = by_mass(row, chain, end, chain->u * end.mass, 1);
    open_bucket(row, chain, drawn.bucket);
    return candidates[drawn.index].id;
}
