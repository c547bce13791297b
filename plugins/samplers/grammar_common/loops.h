/* Where a text goes round: the bytes that all lead from a position to one other, as letters of a word or of a string do. */
#ifndef GRAMMAR_LOOPS_H
#define GRAMMAR_LOOPS_H

#include <wasm_simd128.h>

#include "positions.h"
#include "trie.h"

#define NOT_KNOWN 0xffffffffu
#define MOST_REACH 255u /* for ever */
#define FAR_REACH 40u   /* a chain of different positions is followed no further: longer tokens are few, and walked */

struct loop {
    struct spelling bytes; /* which lead there; SPELLS_TORN: none ever does */
    struct spelling live;  /* which lead anywhere; both bits of what is not ASCII where some of it does */
    struct spelling ways;  /* all that is live at it or at a position that it was followed to */
    uint32_t next;
    uint32_t asked, found; /* 1 + position_round when it was first asked for, and when it was found; 0: it never was */
    uint32_t end;          /* the position after `reach` letters, all of `bytes` */
    uint16_t tokens;       /* below the position, that were walked for want of this */
    uint8_t sure;          /* letters, all of `bytes`, that are known to be able to follow one another */
    uint8_t reach, is_over; /* as far as that was followed; whether not all of `bytes` are of the loop of `end`, too */
    uint8_t knows_whole;   /* whether the bit SPELLS_WHOLE of `bytes` is more than a guess */
};

extern struct loop loops[MAX_POSITIONS];

static inline int spells_any(const struct spelling *some, const struct spelling *others) {
    return wasm_v128_any_true(wasm_v128_and(wasm_v128_load(some), wasm_v128_load(others)));
}

static inline int spells_only(const struct spelling *some, const struct spelling *others) {
    return !wasm_v128_any_true(wasm_v128_andnot(wasm_v128_load(some), wasm_v128_load(others)));
}

/* Finds out what goes_round asks for, as far as it is worth it; 0: it is not. */
int look_round(uint32_t position, const struct node *node);

/* The loop of a position, followed for at least so many letters, as far as it goes on and as there is time. *whole: for how
 * many letters, at most so many, characters beyond ASCII are known to lead where the others of the loop lead. */
const struct loop *loop_followed(uint32_t position, uint32_t letters, uint32_t *whole);

/* Whether all plain tokens (trie.h) can follow a position. May say no where they can. */
int goes_round_plain(uint32_t position);

/* Of the texts that follow a node whose `spelling` is told: those of at most so many bytes can follow a position, no others.
 * NOT_KNOWN where it is no question of length, or not worth its answer. `round`: 1 + position_round. */
static inline uint32_t goes_round(uint32_t position, const struct node *node, uint32_t round) {
    const struct loop *loop = &loops[position];
    const struct spelling *spelling = &spellings[node->spelling];
    if (loop->found != round && !look_round(position, node))
        return NOT_KNOWN;
    if (!spells_only(spelling, &loop->bytes))
        return spells_any(spelling, &loop->live) ? NOT_KNOWN : 0;
    uint32_t length = node->longest - node->depth - 1u, has_whole = spelling->bits[0] & SPELLS_WHOLE;
    if ((has_whole && !loop->knows_whole) || (loop->sure < length && !loop->is_over && loop->reach < FAR_REACH))
        look_round(position, node);
    if (has_whole) /* one kind of position alone: of a chain of others, only what is ASCII was looked at */
        return loop->knows_whole && spells_only(spelling, &loop->bytes) &&
               (loop->next == position || same_for(loop->next, position) >= length) ? length : NOT_KNOWN;
    if (loop->sure >= length)
        return length;
    return loop->is_over && !spells_any(spelling, &loops[loop->end].live) ? loop->reach : NOT_KNOWN;
}

#endif
