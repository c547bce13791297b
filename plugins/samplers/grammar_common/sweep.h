/* Tokens that are one letter and then letters of a loop, allowed as a set (spelled.h) without a walk: the walk that follows
 * looks only below what may leave the loop, and at what is too long for the set.
 */
#ifndef GRAMMAR_SWEEP_H
#define GRAMMAR_SWEEP_H

#include "loops.h"
#include "trie.h"

#define MAX_SWEEPS 4u /* of one position */

struct sweep {
    struct spelling letters, exits; /* of the loop; all others that may follow at some place of it */
    uint32_t position;              /* after the first letter */
    uint32_t tokens;                /* that begin with a first letter */
    uint32_t first, others;         /* groups of characters: of the first letter, of all others */
    uint8_t is_copied;              /* it is no loop: all below its first letters is another mask's */
    uint8_t is_plain;               /* all are plain tokens (trie.h) */
    uint8_t most;                   /* letters of a token that is swept; MOST_REACH: any number */
    uint8_t longest;                /* bytes of what may follow without an exit, at most */
    uint8_t decided;                /* whether a token without an exit may follow is known for those of up to so many bytes */
};

/* How far the path of a walk keeps to a sweep. */
struct swept_path {
    const struct sweep *sweep; /* of its first byte, 0: none */
    uint32_t bytes;            /* that are of it */
};

/* A mask that was made before. */
struct mask_source {
    const uint32_t *mask; /* 0: there is none */
    uint32_t position;
    uint32_t depth; /* bytes of the longest beginning of a token that can follow */
};

/* Finds what can be swept at a position or taken from another mask, and allows it; how much that is. */
uint32_t sweep(uint32_t position, const struct mask_source *from, uint32_t *mask);

static inline uint32_t least_of(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* The sweep that a first byte begins, 0: none. */
const struct sweep *sweep_from(uint8_t byte);

/* 0, or nothing is left to find below a node but for what ends there torn, and what may follow there has at most so many bytes. Nodes come in the order of
 * the tree. */
static inline uint32_t swept_bytes(struct swept_path *path, const struct node *node) {
    uint32_t depth = node->depth, byte = node->byte;
    if (depth == 0) {
        path->sweep = sweep_from(node->byte);
        path->bytes = path->sweep != 0;
    }
    if (path->sweep && path->sweep->is_copied)
        return node->longest <= path->sweep->decided ? least_of(node->longest, path->sweep->longest) : 0;
    if (depth > 0 && path->bytes >= depth) {
        uint32_t bit = byte >= 0x80 ? 0 : byte ? byte : 1; /* of struct spelling */
        path->bytes = depth + (path->sweep->letters.bits[bit / 32] >> bit % 32 & 1);
    }
    if (path->bytes <= depth || !node->spelling || node->longest > path->sweep->decided ||
        spells_any(&spellings[node->spelling], &path->sweep->exits))
        return 0;
    return least_of(node->longest, path->sweep->longest);
}

#endif
