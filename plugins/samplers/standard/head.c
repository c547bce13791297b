#include "chain.h"
#include "limits.h"
#include "sort.h"

#define SAMPLE 1024u      /* logits that are looked at to guess a threshold */
#define HEAD_LEAST 512u   /* candidates to aim at: above 99 % of the mass of most models' answers */
#define HEAD_MOST 8192u   /* beyond it buckets are faster than sorting */
#define MAX_RANK 256u     /* largest rank in the sample that a threshold is taken from */

/* A sorted prefix of the order. */
struct head {
    const struct candidate *sorted;
    const double *weights;
    uint32_t count;
    int complete; /* no candidate lies outside */
};

static double head_weights[VOCAB_CAPACITY];

/* The rank-th largest of a sample of the logits, ranks from 1; -inf when the sample has fewer numbers. */
static double sample_rank(const struct row *row, uint32_t rank) {
    static float best[MAX_RANK];
    uint32_t step = row->count / SAMPLE;
    for (uint32_t i = 0; i < rank; i++)
        best[i] = (float)MINUS_INFINITY;
    for (uint32_t i = 0; i < SAMPLE; i++) {
        float value = row->logits[i * step + (i * 7) % step]; /* no fixed stride: rows may repeat at powers of two */
        if (!(value > best[rank - 1]))
            continue;
        uint32_t at = rank - 1;
        for (; at && best[at - 1] < value; at--)
            best[at] = best[at - 1];
        best[at] = value;
    }
    return best[rank - 1];
}

/* A logit that about `wanted` candidates reach; -inf: all do. Only the speed depends on how good the guess is. */
static double threshold(const struct row *row, uint32_t wanted) {
    if (row->count <= 2 * SAMPLE)
        return MINUS_INFINITY;
    uint32_t rank = (uint32_t)((uint64_t)wanted * SAMPLE / row->count) + 2;
    return rank <= MAX_RANK ? sample_rank(row, rank) : MINUS_INFINITY;
}

/* Candidates of the head that the filters keep; `mass` is that of all that top-k keeps. UINT32_MAX: all, and more
 * outside the head; 0: the head does not tell. */
static uint32_t kept_by_filters(const struct head *head, const struct chain *chain, double mass) {
    uint32_t end = chain->top_k < head->count ? chain->top_k : head->count;
    int open = !head->complete && chain->top_k > head->count; /* whether more follows after `end` */
    uint32_t kept = 0;
    double sum = 0;
    while (kept < end && (kept == 0 || (sum < chain->top_p * mass || chain->top_p >= 1)) &&
           (kept == 0 || head->weights[kept] >= chain->min_p))
        sum += head->weights[kept++];
    if (kept < end || !open)
        return kept;
    return chain->top_p >= 1 && chain->min_p <= 0 ? UINT32_MAX : 0;
}

/* The token at u of the kept mass. */
static uint32_t draw(const struct head *head, const struct chain *chain, double mass) {
    uint32_t kept = kept_by_filters(head, chain, mass);
    if (kept == 0)
        return NO_TOKEN;
    double total = mass, sum = 0;
    if (kept != UINT32_MAX) {
        total = 0;
        for (uint32_t i = 0; i < kept; i++)
            total += head->weights[i];
    }
    uint32_t end = kept == UINT32_MAX ? head->count : kept;
    for (uint32_t i = 0; i < end; i++) {
        sum += head->weights[i];
        if (sum > chain->u * total)
            return head->sorted[i].id;
    }
    return kept == UINT32_MAX ? NO_TOKEN : head->sorted[kept - 1].id;
}

static double head_mass(const struct head *head, uint32_t top_k) {
    double mass = 0;
    for (uint32_t i = 0; i < head->count && i < top_k; i++)
        mass += head->weights[i];
    return mass;
}

/* Without top-k the rest of the row counts too. Its mass is first bounded; only when the bounds give different tokens
 * is it summed exactly. */
static uint32_t draw_with_rest(const struct row *row, const struct head *head, const struct chain *chain) {
    double least = head->sorted[head->count - 1].logit, mass = head_mass(head, UINT32_MAX);
    double error = rough_error(chain->scale);
    if (error > ROUGH_USABLE)
        return draw(head, chain, row_mass(row, chain->scale));
    double rest = row_rough_mass(row, chain->scale, least);
    uint32_t low = draw(head, chain, mass + rest * (1 - error));
    uint32_t high = draw(head, chain, mass + rest * (1 + error));
    return low == high ? low : draw(head, chain, row_mass(row, chain->scale));
}

uint32_t head_draw(const struct row *row, const struct chain *chain) {
    uint32_t wanted = chain->top_k != UINT32_MAX && chain->top_k > HEAD_LEAST / 2 ? 2 * chain->top_k : HEAD_LEAST;
    if (wanted > HEAD_MOST && row->count > HEAD_MOST && chain->scale.max < __builtin_inf())
        return NO_TOKEN;
    int infinite = chain->scale.max == __builtin_inf(); /* then those at +inf share all of the mass */
    double least = infinite ? chain->scale.max : threshold(row, wanted);
    struct head head = {candidates, head_weights, row_gather(row, least, __builtin_inf(), candidates), 0};
    head.complete = infinite || least == MINUS_INFINITY;
    sort_candidates(candidates, spare_candidates, head.count);
    for (uint32_t i = 0; i < head.count; i++)
        head_weights[i] = weight_of(candidates[i].logit, chain->scale);
    if (head.complete || chain->top_k <= head.count)
        return draw(&head, chain, head_mass(&head, chain->top_k));
    if (chain->top_k != UINT32_MAX || head.count == 0)
        return NO_TOKEN;
    return draw_with_rest(row, &head, chain);
}
