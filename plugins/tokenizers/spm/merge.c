/* SentencePiece's BPE: of all neighbours whose joined text is a token, those with the best score merge first, the leftmost
 * among equals, until none are left. What is no token then becomes the tokens of its bytes.
 *
 * A heap of (rank, place) over a linked list makes that O(n log n) for a piece of n bytes: 16 n bytes of symbols and 24 n
 * of queue. Each look-up hashes at most as many bytes as the longest token has.
 */
#include "arena.h"
#include "guest.h"
#include "heap.h"
#include "ranks.h"
#include "utf8.h"

#define NOWHERE 0xFFFFFFFFu

struct symbol {
    uint32_t at;             /* first byte in the piece; the symbol ends where the next one begins */
    uint32_t previous, next; /* places, NOWHERE at the ends */
    uint32_t merged;         /* the token that this symbol and the next one make; NO_ID: none, or merged away */
};

struct work {
    const uint8_t *piece;
    uint32_t length;
    struct symbol *symbols;
    struct heap heap;
};

static uint32_t end_of(const struct work *work, uint32_t place) {
    uint32_t next = work->symbols[place].next;
    return next == NOWHERE ? work->length : work->symbols[next].at;
}

static uint32_t find(const struct work *work, uint32_t from, uint32_t to) {
    return to - from > vocabulary.tokens.longest ? NO_ID : tokens_find(&vocabulary.tokens, work->piece + from, to - from);
}

/* Looks up what the symbol at `place` and its next one make; returns whether that is a token. */
static int rank_pair(struct work *work, uint32_t place) {
    struct symbol *symbol = &work->symbols[place];
    symbol->merged = symbol->next == NOWHERE ? NO_ID : find(work, symbol->at, end_of(work, symbol->next));
    return symbol->merged != NO_ID;
}

static uint64_t entry_of(const struct work *work, uint32_t place) {
    return (uint64_t)rank_of(work->symbols[place].merged) << 32 | place;
}

static void merge_at(struct work *work, uint32_t place) {
    struct symbol *symbol = &work->symbols[place], *gone = &work->symbols[symbol->next];
    symbol->next = gone->next;
    gone->merged = NO_ID;
    if (symbol->next != NOWHERE)
        work->symbols[symbol->next].previous = place;
    if (rank_pair(work, place))
        heap_push(&work->heap, entry_of(work, place));
    if (symbol->previous != NOWHERE && rank_pair(work, symbol->previous))
        heap_push(&work->heap, entry_of(work, symbol->previous));
}

/* One symbol for each character; returns their number. */
static uint32_t spell(struct work *work) {
    uint32_t count = 0;
    for (uint32_t at = 0; at < work->length; count++) {
        work->symbols[count] = (struct symbol){at, count ? count - 1 : NOWHERE, count + 1, NO_ID};
        at += utf8_at(work->piece + at, work->piece + work->length).length;
    }
    work->symbols[count - 1].next = NOWHERE;
    return count;
}

/* The id of a symbol, or those of its bytes; a byte that the vocabulary lacks is left out. */
static int32_t write_symbol(const struct work *work, uint32_t place, uint32_t *ids) {
    uint32_t from = work->symbols[place].at, to = end_of(work, place), id = find(work, from, to);
    int32_t written = 0;
    if (id != NO_ID)
        ids[written++] = id;
    for (uint32_t at = from; id == NO_ID && at < to; at++)
        if (vocabulary.tokens.byte_ids[work->piece[at]] != NO_ID)
            ids[written++] = vocabulary.tokens.byte_ids[work->piece[at]];
    return written;
}

static int32_t merge_in(struct work *work, uint32_t *ids) {
    uint32_t count = spell(work);
    for (uint32_t place = 0; place < count; place++)
        if (rank_pair(work, place))
            heap_begin(&work->heap, entry_of(work, place));
    heap_sort(&work->heap);
    for (uint64_t entry; heap_take(&work->heap, &entry);) {
        uint32_t place = (uint32_t)entry, merged = work->symbols[place].merged;
        if (merged != NO_ID && rank_of(merged) == (uint32_t)(entry >> 32))
            merge_at(work, place);
    }
    int32_t written = 0;
    for (uint32_t place = 0; place != NOWHERE; place = work->symbols[place].next)
        written += write_symbol(work, place, ids + written);
    return written;
}

int32_t guest_merge(const uint8_t *piece, uint32_t length, uint32_t *ids) {
    uint32_t mark = arena_mark();
    struct symbol *symbols = arena_take(length, sizeof *symbols);
    uint64_t *entries = arena_take(HEAP_ENTRIES(length), sizeof *entries);
    struct work work = {piece, length, symbols, heap_of(entries, length)};
    int32_t written = symbols && entries ? merge_in(&work, ids) : -1;
    arena_release(mark);
    return written;
}
