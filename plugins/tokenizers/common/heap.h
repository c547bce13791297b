/* The queue of merges: entries key << 32 | place, the best key first, the leftmost among equals.
 *
 * What is there at the beginning is sorted once and then read from the front; what merges add lies in a binary min-heap. So
 * most of a long piece's entries cost a look at neighbours instead of a way through the heap. An entry whose key is no longer
 * that of its place is stale: whoever takes it skips it.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdint.h>

/* Entries of memory for a piece of n symbols: n - 1 at the beginning, and each of n - 1 merges adds at most two. */
#define HEAP_ENTRIES(n) (3 * (uint64_t)(n))

#define SHORT 32u /* entries that are sorted one by one */

struct heap {
    uint64_t *sorted; /* [next, ready) are still to come */
    uint32_t next, ready;
    uint64_t *entries; /* the heap */
    uint32_t count;
};

/* An empty queue for a piece of n symbols, in HEAP_ENTRIES(n) of memory. */
static inline struct heap heap_of(uint64_t *memory, uint32_t n) {
    return (struct heap){memory, 0, 0, memory + n, 0};
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
    for (uint32_t i = 0; i < heap->ready; i++)
        heap->entries[starts[heap->sorted[i] >> shift & 0xFF]++] = heap->sorted[i];
    __builtin_memcpy(heap->sorted, heap->entries, heap->ready * sizeof *heap->sorted);
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

static inline void heap_push(struct heap *heap, uint64_t entry) {
    uint32_t at = heap->count++;
    while (at) {
        uint32_t parent = (at - 1) / 2;
        if (heap->entries[parent] <= entry)
            break;
        heap->entries[at] = heap->entries[parent];
        at = parent;
    }
    heap->entries[at] = entry;
}

static inline uint64_t heap_pop(struct heap *heap) {
    uint64_t top = heap->entries[0], last = heap->entries[--heap->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && heap->entries[child + 1] < heap->entries[child])
            child++;
        if (last <= heap->entries[child])
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = last;
    return top;
}

/* Takes the best entry; 0 when none is left. */
static inline int heap_take(struct heap *heap, uint64_t *entry) {
    if (heap->next < heap->ready && (!heap->count || heap->sorted[heap->next] < heap->entries[0]))
        *entry = heap->sorted[heap->next++];
    else if (heap->count)
        *entry = heap_pop(heap);
    else
        return 0;
    return 1;
}

#endif
