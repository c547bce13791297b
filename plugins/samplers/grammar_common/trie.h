/* The texts of all tokens as one tree, built once by init() and so part of the snapshot.
 *
 * Nodes lie in preorder: a walk goes from left to right and skips a subtree by one jump. There are two trees, for most
 * tokens change nothing within the text of a JSON string: `plain_tokens` has the ids whose text is at most PLAIN_LETTERS
 * whole characters without `"`, `\` and control characters, and the second tree has all others. Where a position is in a
 * string, the plain ones that its bounds leave room for are allowed with no walk at all.
 */
#ifndef GRAMMAR_TRIE_H
#define GRAMMAR_TRIE_H

#include <stdint.h>

#include "limits.h"
#include "sealhost.h"

#define NO_TOKEN 0xffffffffu
#define MAX_IDS 263168u
#define MASK_WORDS (MAX_IDS / 32u)

struct trie {
    uint32_t first, end; /* nodes */
};

extern struct trie all_tokens, other_tokens;
extern uint32_t plain_tokens[PLAIN_LETTERS + 1][MASK_WORDS]; /* by the most letters */

/* Returns 0, or what there was too much of. */
const char *trie_build(const uint8_t *table_bytes, const struct sealhost_token_table *table);

extern uint32_t walked_depth; /* the longest beginning of a token that could follow, in the last walk from a position with `spare` */

/* Sets the bits of the tokens that can follow a position; tokens that others would spell alike are all allowed.
 * Returns 0 when a bound of positions.h was met. */
int trie_walk(struct trie trie, uint32_t position, uint32_t *mask);

#endif
