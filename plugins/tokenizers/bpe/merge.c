/* Byte-pair merging of one piece of text: a symbol's value is its id, and the rank of a pair that of its merge. */
#include "chain.h"
#include "guest.h"
#include "pairs.h"
#include "rules.h"
#include "utf8.h"

static uint32_t join_rank(const struct chain *chain, uint32_t place) {
    const struct symbol *symbol = &chain->symbols[place];
    return pairs_rank(symbol->value, chain->symbols[symbol->next].value);
}

static uint32_t joined_value(const struct chain *chain, uint32_t place) {
    const struct symbol *symbol = &chain->symbols[place];
    return pairs_merged(symbol->value, chain->symbols[symbol->next].value);
}

/* The symbol of one byte; a byte that the vocabulary lacks is left out. */
static void append_byte(struct chain *chain, uint8_t byte) {
    if (vocabulary.tokens.byte_ids[byte] != NO_ID)
        chain_append(chain, vocabulary.tokens.byte_ids[byte]);
}

/* One symbol for each character that the vocabulary has, else one for each of its bytes that it has. */
static void spell_characters(struct chain *chain) {
    const uint8_t *end = chain->piece + chain->length;
    for (const uint8_t *at = chain->piece; at < end;) {
        uint32_t length = utf8_at(at, end).length, id = tokens_find(&vocabulary.tokens, at, length);
        if (id != NO_ID)
            chain_append(chain, id);
        for (uint32_t i = 0; id == NO_ID && i < length; i++)
            append_byte(chain, at[i]);
        at += length;
    }
}

static void spell(struct chain *chain) {
    if (vocabulary.spelling == SPELLS_BLANKS)
        spell_characters(chain);
    else
        for (uint32_t i = 0; i < chain->length; i++)
            append_byte(chain, chain->piece[i]);
}

int32_t guest_merge(const uint8_t *piece, uint32_t length, uint32_t *ids) {
    if (rules_take_whole(piece, length)) {
        ids[0] = tokens_find(&vocabulary.tokens, piece, length);
        if (ids[0] != NO_ID)
            return 1;
    }
    uint32_t mark = arena_mark();
    struct chain chain;
    int32_t written = -1;
    if (chain_begin(&chain, piece, length)) {
        spell(&chain);
        chain_merge(&chain);
        written = 0;
        for (uint32_t place = chain.symbols[0].next; place; place = chain.symbols[place].next)
            ids[written++] = chain.symbols[place].value;
    }
    arena_release(mark);
    return written;
}
