/* A min-heap of key << 32 | place: the best merge first, the leftmost among equals.
 *
 * An entry whose key is no longer that of its place is stale: whoever pops it skips it. It starts with at most n - 1
 * entries, and each merge takes one and adds at most two, so it never holds more than 2 n.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdint.h>

struct heap {
    uint64_t *entries;
    uint32_t count;
};

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

#endif
