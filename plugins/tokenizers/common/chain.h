/* Merging the neighbours of one piece: the best pair first, the leftmost among equals, until no neighbours merge.
 *
 * A guest's merge.c includes this, appends the symbols that the piece starts from, and says what a merge is:
 *
 *     static uint32_t join_rank(chain, place)    at which this symbol and its next one merge; NO_RANK: never
 *     static uint32_t joined_value(chain, place) what becomes of this symbol's value when they do
 *
 * Only pairs that come before both of their neighbours are queued: no other pair can be the next to merge. So a run of equal
 * letters, whose pairs all wait for the one on their left, keeps the queue at a few entries and costs O(n), and any piece of
 * n bytes O(n log n), with 16 n bytes of symbols and 20 n of queue.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "arena.h"
#include "heap.h"

#define NO_RANK 0xFFFFFFFFu

struct symbol {
    uint32_t value;          /* the guest's: what this symbol is */
    uint32_t previous, next; /* places */
    uint32_t rank;           /* at which this symbol and the next one merge; NO_RANK: never, or merged away */
};

/* Places are 1 to `count`. Place 0 lies before the first and behind the last symbol, and never merges. */
struct chain {
    const uint8_t *piece;
    uint32_t length, count;
    struct symbol *symbols;
    struct heap heap;
};

static uint32_t join_rank(const struct chain *chain, uint32_t place);
static uint32_t joined_value(const struct chain *chain, uint32_t place);

/* A chain without symbols, with room for one for each byte; 0 when the arena is full. Its memory is the arena's, up to a mark
 * of the caller's. */
static inline int chain_begin(struct chain *chain, const uint8_t *piece, uint32_t length) {
    struct symbol *symbols = arena_take((uint64_t)length + 1, sizeof *symbols);
    uint64_t *entries = arena_take(HEAP_ENTRIES(length), sizeof *entries);
    if (!symbols || !entries)
        return 0;
    symbols[0] = (struct symbol){.rank = NO_RANK};
    *chain = (struct chain){piece, length, 0, symbols, heap_of(entries, length)};
    return 1;
}

static inline void chain_append(struct chain *chain, uint32_t value) {
    uint32_t place = ++chain->count;
    chain->symbols[place] = (struct symbol){value, place - 1, 0, NO_RANK};
    chain->symbols[place - 1].next = place;
    chain->symbols[0].previous = place;
}

/* Looks up how the symbol at `place` merges with its next one. */
static inline void chain_rank(struct chain *chain, uint32_t place) {
    if (place && chain->symbols[place].next)
        chain->symbols[place].rank = join_rank(chain, place);
    else
        chain->symbols[place].rank = NO_RANK;
}

/* Whether the pair at `place` comes before the pairs on both sides of it. */
static inline int chain_leads(const struct chain *chain, uint32_t place) {
    const struct symbol *symbols = chain->symbols, *symbol = &symbols[place];
    return symbol->rank != NO_RANK && symbol->rank < symbols[symbol->previous].rank &&
           symbol->rank <= symbols[symbol->next].rank;
}

static inline uint64_t chain_entry(const struct chain *chain, uint32_t place) {
    return (uint64_t)chain->symbols[place].rank << 32 | place;
}

static inline void chain_offer(struct chain *chain, uint32_t place) {
    if (chain_leads(chain, place))
        heap_push(&chain->heap, chain_entry(chain, place));
}

/* Merges the pair at `place`. Four pairs may come to lead by that: the two that are new, and those beside them, if they had
 * to wait for what was there before. */
static inline void chain_join(struct chain *chain, uint32_t place) {
    struct symbol *symbols = chain->symbols, *symbol = &symbols[place], *gone = &symbols[symbol->next];
    uint32_t left = symbol->previous, right = gone->next, left_left = symbols[left].previous;
    uint32_t left_waits = symbols[left_left].rank > symbols[left].rank;
    uint32_t right_waits = symbols[right].rank >= gone->rank;
    symbol->value = joined_value(chain, place);
    symbol->next = right;
    symbols[right].previous = place;
    gone->rank = NO_RANK;
    chain_rank(chain, place);
    chain_rank(chain, left);
    if (left_waits)
        chain_offer(chain, left_left);
    chain_offer(chain, left);
    chain_offer(chain, place);
    if (right_waits)
        chain_offer(chain, right);
}

/* Merges all that merges. What is left stands from place symbols[0].next on. */
static inline void chain_merge(struct chain *chain) {
    for (uint32_t place = 1; place <= chain->count; place++)
        chain_rank(chain, place);
    for (uint32_t place = 1; place <= chain->count; place++)
        if (chain_leads(chain, place))
            heap_begin(&chain->heap, chain_entry(chain, place));
    heap_sort(&chain->heap);
    for (uint64_t entry; heap_take(&chain->heap, &entry);)
        if (chain->symbols[(uint32_t)entry].rank == (uint32_t)(entry >> 32))
            chain_join(chain, (uint32_t)entry);
}

#endif
