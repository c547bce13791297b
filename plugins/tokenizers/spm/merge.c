/* SentencePiece's BPE: of all neighbours whose joined text is a token, those with the best score merge first, the leftmost
 * among equals, until none are left. What is no token then becomes the tokens of its bytes.
 *
 * A symbol's value is where it begins in the piece; it ends where the next one begins. Each look-up hashes at most as many
 * bytes as the longest token has.
 */
#include "chain.h"
#include "guest.h"
#include "ranks.h"
#include "utf8.h"

static uint32_t end_of(const struct chain *chain, uint32_t place) {
    uint32_t next = chain->symbols[place].next;
    return next ? chain->symbols[next].value : chain->length;
}

static uint32_t find(const struct chain *chain, uint32_t from, uint32_t to) {
    return to - from > vocabulary.tokens.longest ? NO_ID : tokens_find(&vocabulary.tokens, chain->piece + from, to - from);
}

static uint32_t join_rank(const struct chain *chain, uint32_t place) {
    const struct symbol *symbol = &chain->symbols[place];
    uint32_t id = find(chain, symbol->value, end_of(chain, symbol->next));
    return id == NO_ID ? NO_RANK : rank_of(id);
}

static uint32_t joined_value(const struct chain *chain, uint32_t place) {
    return chain->symbols[place].value;
}

/* One symbol for each character. */
static void spell(struct chain *chain) {
    for (uint32_t at = 0; at < chain->length;) {
        chain_append(chain, at);
        at += utf8_at(chain->piece + at, chain->piece + chain->length).length;
    }
}

/* The id of a symbol, or those of its bytes; a byte that the vocabulary lacks is left out. */
static int32_t write_symbol(const struct chain *chain, uint32_t place, uint32_t *ids) {
    uint32_t from = chain->symbols[place].value, to = end_of(chain, place), id = find(chain, from, to);
    int32_t written = 0;
    if (id != NO_ID)
        ids[written++] = id;
    for (uint32_t at = from; id == NO_ID && at < to; at++)
        if (vocabulary.tokens.byte_ids[chain->piece[at]] != NO_ID)
            ids[written++] = vocabulary.tokens.byte_ids[chain->piece[at]];
    return written;
}

int32_t guest_merge(const uint8_t *piece, uint32_t length, uint32_t *ids) {
    uint32_t mark = arena_mark();
    struct chain chain;
    int32_t written = -1;
    if (chain_begin(&chain, piece, length)) {
        spell(&chain);
        chain_merge(&chain);
        written = 0;
        for (uint32_t place = chain.symbols[0].next; place; place = chain.symbols[place].next)
            written += write_symbol(&chain, place, ids + written);
    }
    arena_release(mark);
    return written;
}
