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

void sort_candidates(struct candidate *candidates, struct candidate *spare, uint32_t count) {
    for (uint32_t at = 0; at < count; at += BLOCK)
        insertion(candidates + at, count - at < BLOCK ? count - at : BLOCK);
    for (uint32_t width = BLOCK; width < count; width *= 2)
        for (uint32_t at = 0; at + width < count; at += 2 * width)
            merge(candidates + at, width, count - at < 2 * width ? count - at : 2 * width, spare);
}
