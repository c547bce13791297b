/* All tokens that text can become, byte by byte.
 *
 * Nodes are numbered level by level, and within a level in the order of their texts. So the children of a node lie together,
 * those of the next node behind them, and a node takes 9 bytes:
 *
 *   node -> first child    an array; the next node's first child is its children's end
 *   node -> byte           an array
 *   node -> id             an array
 */
#ifndef TRIE_H
#define TRIE_H

#include <stdint.h>

#include "tokens.h"

#define TRIE_ROOT 0u
#define NO_NODE 0xFFFFFFFFu

/* A text that becomes part of the trie. */
struct branch {
    uint32_t id;
    uint32_t shared; /* bytes that it begins with like the one before it */
    uint32_t node;   /* that it has reached */
};

/* Builds the trie of texts that are sorted by their bytes, none of them empty and no two alike. The branches are used up. 0
 * when the arena is full. */
int trie_build(const struct tokens *tokens, struct branch *branches, uint32_t count);

/* The node below `node` for one more byte, NO_NODE: no text goes on so. */
uint32_t trie_child(uint32_t node, uint8_t byte);

/* The token that ends at a node, NO_ID: none. */
uint32_t trie_id(uint32_t node);

#endif
