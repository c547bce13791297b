/* The queue of merges: entries key << 32 | place, the best key first, the leftmost among equals.
 *
 * What is there at the beginning is sorted once and then read from the front. What merges add goes behind it as long as it
 * comes in order, which it mostly does where a text repeats itself, and else into a binary min-heap. So most of a long piece's
 * entries cost a look at neighbours instead of a way through the heap. An entry whose key is no longer that of its place is
 * stale: whoever takes it skips it.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdint.h>

/* Entries of memory for a piece of n symbols. No two neighbours among its n - 1 pairs are queued at a time: at most n / 2 at
 * the beginning, and each of n - 1 merges adds at most two. */
#define HEAP_ENTRIES(n) (2 * (uint64_t)(n) + (n) / 2)

#define SHORT 32u /* entries that are sorted one by one */

struct heap {
    uint64_t *sorted; /* grows upwards; [next, ready) are still to come */
    uint32_t next, ready;
    uint64_t *root; /* of the heap, which grows downwards from the end of the same memory */
    uint32_t count;
};

/* An empty queue for a piece of n symbols, in HEAP_ENTRIES(n) of memory. */
static inline struct heap heap_of(uint64_t *memory, uint32_t n) {
    return (struct heap){memory, 0, 0, memory + HEAP_ENTRIES(n) - 1, 0};
}

/* Adds one of the first entries, in ascending order of place. */
static inline void heap_begin(struct heap *heap, uint64_t entry) {
    heap->sorted[heap->ready++] = entry;
}

/* One pass of a radix sort, by eight bits of the key; keeps the order of equal ones. */
static inline void heap_sort_by(struct heap *heap, uint32_t shift) {
    uint32_t starts[257] = {0};
    for (uint32_t i = 0; i < heap->ready; i++)
        starts[(heap->sorted[i] >> shift & 0xFF) + 1]++;
    if (starts[(heap->sorted[0] >> shift & 0xFF) + 1] == heap->ready)
        return; /* all alike */
    for (uint32_t digit = 0; digit < 256; digit++)
        starts[digit + 1] += starts[digit];
    uint64_t *by_digit = heap->sorted + heap->ready;
    for (uint32_t i = 0; i < heap->ready; i++)
        by_digit[starts[heap->sorted[i] >> shift & 0xFF]++] = heap->sorted[i];
    __builtin_memcpy(heap->sorted, by_digit, heap->ready * sizeof *heap->sorted);
}

/* Sorts the first entries, once, before anything else is added. */
static inline void heap_sort(struct heap *heap) {
    for (uint32_t shift = 32; heap->ready > SHORT && shift < 64; shift += 8)
        heap_sort_by(heap, shift);
    for (uint32_t i = 1; heap->ready <= SHORT && i < heap->ready; i++) {
        uint64_t entry = heap->sorted[i];
        uint32_t at = i;
        for (; at && heap->sorted[at - 1] > entry; at--)
            heap->sorted[at] = heap->sorted[at - 1];
        heap->sorted[at] = entry;
    }
}

static inline uint64_t *heap_node(const struct heap *heap, uint32_t at) {
    return heap->root - at;
}

static inline void heap_push(struct heap *heap, uint64_t entry) {
    if (heap->next == heap->ready || entry >= heap->sorted[heap->ready - 1]) {
        heap->sorted[heap->ready++] = entry;
        return;
    }
    uint32_t at = heap->count++;
    while (at) {
        uint32_t parent = (at - 1) / 2;
        if (*heap_node(heap, parent) <= entry)
            break;
        *heap_node(heap, at) = *heap_node(heap, parent);
        at = parent;
    }
    *heap_node(heap, at) = entry;
}

static inline uint64_t heap_pop(struct heap *heap) {
    uint64_t top = *heap->root, last = *heap_node(heap, --heap->count);
    uint32_t at = 0;
    for (uint32_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && *heap_node(heap, child + 1) < *heap_node(heap, child))
            child++;
        if (last <= *heap_node(heap, child))
            break;
        *heap_node(heap, at) = *heap_node(heap, child);
        at = child;
    }
    *heap_node(heap, at) = last;
    return top;
}

/* Takes the best entry; 0 when none is left. */
static inline int heap_take(struct heap *heap, uint64_t *entry) {
    if (heap->next < heap->ready && (!heap->count || heap->sorted[heap->next] < *heap->root))
        *entry = heap->sorted[heap->next++];
    else if (heap->count)
        *entry = heap_pop(heap);
    else
        return 0;
    return 1;
}

#endif
