#include "merge.h"

#include "arena.h"

#define NOWHERE 0xFFFFFFFFu

struct symbol {
    uint32_t id;
    uint32_t previous, next; /* places, NOWHERE at the ends */
    uint32_t rank;           /* at which this symbol and the next one merge; NO_RANK: never, or merged away */
};

/* A min-heap of rank << 32 | place. An entry whose rank is no longer its symbol's is stale and skipped.
 * It starts with at most n - 1 entries; each merge takes one and adds at most two: never above 2 n. */
struct heap {
    uint64_t *entries;
    uint32_t count;
};

static void heap_push(struct heap *heap, uint64_t entry) {
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

static uint64_t heap_pop(struct heap *heap) {
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

/* Looks up how the symbol at `place` merges with its next one, and queues it. */
static void rank_pair(const struct tables *tables, struct symbol *symbols, struct heap *heap, uint32_t place) {
    struct symbol *symbol = &symbols[place];
    symbol->rank =
        symbol->next == NOWHERE ? NO_RANK : tables_rank(tables, symbol->id, symbols[symbol->next].id);
    if (symbol->rank != NO_RANK)
        heap_push(heap, (uint64_t)symbol->rank << 32 | place);
}

/* One symbol for each byte that the vocabulary has; returns their number. */
static uint32_t spell(const struct tables *tables, const uint8_t *bytes, uint32_t length, struct symbol *symbols) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t id = tables->byte_ids[bytes[i]];
        if (id == NO_ID)
            continue;
        symbols[count] = (struct symbol){id, count ? count - 1 : NOWHERE, count + 1, NO_RANK};
        count++;
    }
    if (count)
        symbols[count - 1].next = NOWHERE;
    return count;
}

static void merge_at(const struct tables *tables, struct symbol *symbols, struct heap *heap, uint32_t place) {
    struct symbol *symbol = &symbols[place], *gone = &symbols[symbol->next];
    symbol->id = tables->merged[symbol->rank];
    symbol->next = gone->next;
    gone->rank = NO_RANK;
    if (symbol->next != NOWHERE)
        symbols[symbol->next].previous = place;
    rank_pair(tables, symbols, heap, place);
    if (symbol->previous != NOWHERE)
        rank_pair(tables, symbols, heap, symbol->previous);
}

static int32_t merge_in(
    const struct tables *tables, const uint8_t *bytes, uint32_t length, uint32_t *ids, struct symbol *symbols,
    struct heap *heap) {
    uint32_t count = spell(tables, bytes, length, symbols);
    for (uint32_t place = 0; place < count; place++)
        rank_pair(tables, symbols, heap, place);
    while (heap->count) {
        uint64_t entry = heap_pop(heap);
        uint32_t place = (uint32_t)entry;
        if (symbols[place].rank == (uint32_t)(entry >> 32))
            merge_at(tables, symbols, heap, place);
    }
    int32_t written = 0;
    for (uint32_t place = count ? 0 : NOWHERE; place != NOWHERE; place = symbols[place].next)
        ids[written++] = symbols[place].id;
    return written;
}

int32_t merge_piece(const struct tables *tables, const uint8_t *bytes, uint32_t length, uint32_t *ids) {
    uint32_t mark = arena_mark();
    struct symbol *symbols = arena_take(length, sizeof *symbols);
    struct heap heap = {arena_take(2 * (uint64_t)length, sizeof *heap.entries), 0};
    int32_t written = symbols && heap.entries ? merge_in(tables, bytes, length, ids, symbols, &heap) : -1;
    arena_release(mark);
    return written;
}
