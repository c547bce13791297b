/* Byte-pair merging of one piece of text.
 *
 * The best-ranked pair merges first, the leftmost among equals, until no neighbours merge. A heap of
 * (rank, place) makes that O(n log n) for a piece of n bytes: 16 n bytes of symbols and 24 n of queue.
 */
#include "arena.h"
#include "guest.h"
#include "heap.h"
#include "pairs.h"
#include "rules.h"
#include "utf8.h"

#define NOWHERE 0xFFFFFFFFu

struct symbol {
    uint32_t id;
    uint32_t previous, next; /* places, NOWHERE at the ends */
    uint32_t rank;           /* at which this symbol and the next one merge; NO_RANK: never, or merged away */
};

/* Looks up how the symbol at `place` merges with its next one; returns whether it does. */
static int rank_pair(struct symbol *symbols, uint32_t place) {
    struct symbol *symbol = &symbols[place];
    symbol->rank = symbol->next == NOWHERE ? NO_RANK : pairs_rank(symbol->id, symbols[symbol->next].id);
    return symbol->rank != NO_RANK;
}

static uint64_t entry_of(const struct symbol *symbols, uint32_t place) {
    return (uint64_t)symbols[place].rank << 32 | place;
}

static uint32_t append(struct symbol *symbols, uint32_t count, uint32_t id) {
    if (id == NO_ID)
        return count;
    symbols[count] = (struct symbol){id, count ? count - 1 : NOWHERE, count + 1, NO_RANK};
    return count + 1;
}

/* One symbol for each character that the vocabulary has, else one for each of its bytes that it has. */
static uint32_t spell_characters(const uint8_t *at, const uint8_t *end, struct symbol *symbols) {
    uint32_t count = 0;
    for (uint32_t length; at < end; at += length) {
        length = utf8_at(at, end).length;
        uint32_t id = tokens_find(&vocabulary.tokens, at, length);
        if (id != NO_ID)
            count = append(symbols, count, id);
        for (uint32_t i = 0; id == NO_ID && i < length; i++)
            count = append(symbols, count, vocabulary.tokens.byte_ids[at[i]]);
    }
    return count;
}

/* The symbols that merging starts from; returns their number. Bytes that the vocabulary lacks are left out. */
static uint32_t spell(const uint8_t *bytes, uint32_t length, struct symbol *symbols) {
    uint32_t count = 0;
    if (vocabulary.spelling == SPELLS_BLANKS)
        count = spell_characters(bytes, bytes + length, symbols);
    else
        for (uint32_t i = 0; i < length; i++)
            count = append(symbols, count, vocabulary.tokens.byte_ids[bytes[i]]);
    if (count)
        symbols[count - 1].next = NOWHERE;
    return count;
}

static void merge_at(struct symbol *symbols, struct heap *heap, uint32_t place) {
    struct symbol *symbol = &symbols[place], *gone = &symbols[symbol->next];
    symbol->id = pairs_merged(symbol->rank);
    symbol->next = gone->next;
    gone->rank = NO_RANK;
    if (symbol->next != NOWHERE)
        symbols[symbol->next].previous = place;
    if (rank_pair(symbols, place))
        heap_push(heap, entry_of(symbols, place));
    if (symbol->previous != NOWHERE && rank_pair(symbols, symbol->previous))
        heap_push(heap, entry_of(symbols, symbol->previous));
}

static int32_t merge_in(
    const uint8_t *bytes, uint32_t length, uint32_t *ids, struct symbol *symbols, struct heap *heap) {
    uint32_t count = spell(bytes, length, symbols);
    for (uint32_t place = 0; place < count; place++)
        if (rank_pair(symbols, place))
            heap_begin(heap, entry_of(symbols, place));
    heap_sort(heap);
    for (uint64_t entry; heap_take(heap, &entry);) {
        uint32_t place = (uint32_t)entry;
        if (symbols[place].rank == (uint32_t)(entry >> 32))
            merge_at(symbols, heap, place);
    }
    int32_t written = 0;
    for (uint32_t place = count ? 0 : NOWHERE; place != NOWHERE; place = symbols[place].next)
        ids[written++] = symbols[place].id;
    return written;
}

int32_t guest_merge(const uint8_t *piece, uint32_t length, uint32_t *ids) {
    if (rules_take_whole(piece, length)) {
        ids[0] = tokens_find(&vocabulary.tokens, piece, length);
        if (ids[0] != NO_ID)
            return 1;
    }
    uint32_t mark = arena_mark();
    struct symbol *symbols = arena_take(length, sizeof *symbols);
    uint64_t *entries = arena_take(HEAP_ENTRIES(length), sizeof *entries);
    struct heap heap = heap_of(entries, length);
    int32_t written = symbols && entries ? merge_in(piece, length, ids, symbols, &heap) : -1;
    arena_release(mark);
    return written;
}
