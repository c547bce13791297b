/* All tokens that text can become, byte by byte.
 *
 *   (node, byte) -> node  open addressing, 8-byte slots, at most two thirds full
 *   node -> id            an array
 */
#ifndef TRIE_H
#define TRIE_H

#include <stdint.h>

#define TRIE_ROOT 0u
#define NO_NODE 0xFFFFFFFFu

/* Room for `nodes` nodes besides the root; 0 when the arena is full. */
int trie_reserve(uint32_t nodes);

/* Adds a text; the first of two equal ones counts. There must be room for a node for each of its bytes. */
void trie_add(const uint8_t *text, uint32_t length, uint32_t id);

/* The node below `node` for one more byte, NO_NODE: no text goes on so. */
uint32_t trie_child(uint32_t node, uint8_t byte);

/* The token that ends at a node, NO_ID: none. */
uint32_t trie_id(uint32_t node);

#endif
