#include "sort.h"

#define BLOCK 16u /* candidates that insertion sorts faster than merging does */

static void insertion(struct candidate *at, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        struct candidate moved = at[i];
        uint32_t j = i;
        for (; j && comes_before(&moved, &at[j - 1]); j--)
            at[j] = at[j - 1];
        at[j] = moved;
    }
}

/* Merges [0, middle) and [middle, count), each in order. Only the first half is copied away. */
static void merge(struct candidate *at, uint32_t middle, uint32_t count, struct candidate *spare) {
    if (!comes_before(&at[middle], &at[middle - 1]))
        return;
    __builtin_memcpy(spare, at, middle * sizeof *at);
    uint32_t left = 0, right = middle, to = 0;
    while (left < middle && right < count)
        at[to++] = comes_before(&at[right], &spare[left]) ? at[right++] : spare[left++];
    while (left < middle)
        at[to++] = spare[left++];
}

static void sort_by_merging(struct candidate *candidates, struct candidate *spare, uint32_t count) {
    for (uint32_t at = 0; at < count; at += BLOCK)
        insertion(candidates + at, count - at < BLOCK ? count - at : BLOCK);
    for (uint32_t width = BLOCK; width < count; width *= 2)
        for (uint32_t at = 0; at + width < count; at += 2 * width)
            merge(candidates + at, width, count - at < 2 * width ? count - at : 2 * width, spare);
}

/* ---- many candidates: by the digits of a key, lowest first ---------------------------------------------------------- */

#define MANY 4096u /* fewer are merged as fast */
#define DIGIT_BITS 11u
#define DIGIT (1u << DIGIT_BITS)
#define PASSES 3u /* 33 bits, of which a key has 32 */

static uint32_t counts[PASSES][DIGIT];

/* The logit rounded to float32, as an integer that is the lower the larger it is; 0 and -0 are one. */
static inline uint32_t key_of(const struct candidate *one) {
    float rounded = (float)one->logit + 0.0f;
    uint32_t bits;
    __builtin_memcpy(&bits, &rounded, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

static inline uint32_t digit_of(uint32_t key, uint32_t pass) {
    return key >> (pass * DIGIT_BITS) & (DIGIT - 1);
}

static void count_digits(const struct candidate *at, uint32_t count) {
    __builtin_memset(counts, 0, sizeof counts);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = key_of(&at[i]);
        for (uint32_t pass = 0; pass < PASSES; pass++)
            counts[pass][digit_of(key, pass)]++;
    }
}

/* Makes counts places: how many have a lower digit. Whether all have the same one. */
static int make_places(uint32_t *places, uint32_t count) {
    uint32_t before = 0;
    for (uint32_t digit = 0; digit < DIGIT; digit++) {
        uint32_t here = places[digit];
        if (here == count)
            return 1;
        places[digit] = before;
        before += here;
    }
    return 0;
}

/* Sorts by keys; who share one stay in their order. */
static void sort_by_keys(struct candidate *candidates, struct candidate *spare, uint32_t count) {
    struct candidate *from = candidates, *to = spare;
    count_digits(from, count);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        uint32_t *places = counts[pass];
        if (make_places(places, count))
            continue;
        for (uint32_t i = 0; i < count; i++)
            to[places[digit_of(key_of(&from[i]), pass)]++] = from[i];
        struct candidate *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != candidates)
        __builtin_memcpy(candidates, from, count * sizeof *candidates);
}

/* Who share a key may differ in what rounding took away, or by their ids. */
static void sort_equals(struct candidate *candidates, struct candidate *spare, uint32_t count) {
    for (uint32_t first = 0, end; first < count; first = end) {
        uint32_t key = key_of(&candidates[first]);
        for (end = first + 1; end < count && key_of(&candidates[end]) == key;)
            end++;
        sort_by_merging(candidates + first, spare, end - first);
    }
}

static int are_sorted(const struct candidate *candidates, uint32_t count) {
    uint32_t at = 1;
    while (at < count && !comes_before(&candidates[at], &candidates[at - 1]))
        at++;
    return at >= count;
}

void sort_candidates(struct candidate *candidates, struct candidate *spare, uint32_t count) {
    if (count < MANY) {
        sort_by_merging(candidates, spare, count);
        return;
    }
    if (are_sorted(candidates, count))
        return;
    sort_by_keys(candidates, spare, count);
    sort_equals(candidates, spare, count);
}
