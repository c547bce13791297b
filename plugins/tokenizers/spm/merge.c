/* SentencePiece's BPE: of all neighbours whose joined text is a token, those with the best score merge first, the leftmost
 * among equals, until none are left. What is no token then becomes the tokens of its bytes.
 *
 * A heap of (rank, place) over a linked list makes that O(n log n) for a piece of n bytes: 16 n bytes of symbols and 16 n
 * of heap. Each look-up hashes at most as many bytes as the longest token has.
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

/* Looks up what the symbol at `place` and its next one make, and queues it. */
static void rank_pair(struct work *work, uint32_t place) {
    struct symbol *symbol = &work->symbols[place];
    symbol->merged = symbol->next == NOWHERE ? NO_ID : find(work, symbol->at, end_of(work, symbol->next));
    if (symbol->merged != NO_ID)
        heap_push(&work->heap, (uint64_t)rank_of(symbol->merged) << 32 | place);
}

static void merge_at(struct work *work, uint32_t place) {
    struct symbol *symbol = &work->symbols[place], *gone = &work->symbols[symbol->next];
    symbol->next = gone->next;
    gone->merged = NO_ID;
    if (symbol->next != NOWHERE)
        work->symbols[symbol->next].previous = place;
    rank_pair(work, place);
    if (symbol->previous != NOWHERE)
        rank_pair(work, symbol->previous);
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
        rank_pair(work, place);
    while (work->heap.count) {
        uint64_t entry = heap_pop(&work->heap);
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
    struct work work = {piece, length, arena_take(length, sizeof *work.symbols), {0, 0}};
    work.heap.entries = arena_take(2 * (uint64_t)length, sizeof *work.heap.entries);
    int32_t written = work.symbols && work.heap.entries ? merge_in(&work, ids) : -1;
    arena_release(mark);
    return written;
}
