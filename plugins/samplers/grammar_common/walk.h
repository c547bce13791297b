/* Which tokens can follow a position: a walk over their tree, from left to right. */
#ifndef GRAMMAR_WALK_H
#define GRAMMAR_WALK_H

#include "sweep.h"
#include "trie.h"

extern uint32_t walked_depth; /* bytes of the longest beginning of a token that could follow, in the last walk */
extern uint32_t walked_nodes; /* nodes that it looked at */

/* Sets the bits of the tokens that can follow a position, of those with more than `shortest` bytes all, of others some;
 * tokens that others would spell alike are all allowed. Returns 0 when a bound of positions.h was met. */
int walk(struct trie trie, uint32_t position, uint32_t shortest, const struct mask_source *from, uint32_t *mask);

#endif
