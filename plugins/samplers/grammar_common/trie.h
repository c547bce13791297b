/* The texts of all tokens as a tree in preorder, so that a walk goes from left to right and skips a subtree by one jump.
 * There are two trees, for most tokens change nothing within the text of a JSON string: `plain_tokens` has the ids whose
 * text is at most PLAIN_LETTERS whole characters without `"`, `\` and control characters, and the second tree has all
 * others. Where a position is in a string, the plain ones that its bounds leave room for are allowed with no walk at all.
 *
 * A node knows what all tokens below it spell, so that a position which goes round with all of these bytes allows the
 * whole subtree at once (loops.h): its tokens stand side by side in `ordered`.
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

struct node {
    uint32_t end;      /* the node after the subtree */
    uint32_t first;    /* ids that end in the subtree: in `ordered` from here to the `first` of the node `end` */
    uint8_t byte, depth;
    uint8_t longest;   /* bytes of the longest token of the subtree */
    uint8_t can_loop : 1, ends_torn : 1; /* a character ends here, and some token goes on; a token ends here, and no character */
    uint16_t spelling; /* what follows this node in all of them, 0: that is not told */
};

/* Bytes that tokens spell: bit n for the character n below 128, but for the two: */
struct spelling {
    uint32_t bits[4];
};
#define SPELLS_WHOLE 1u /* bit 0 of the first word: whole characters beyond ASCII */
#define SPELLS_TORN 2u  /* parts of such, and NUL and SOH, whose bits these are */

extern struct node nodes[MAX_NODES + 1];
extern uint32_t ordered[2 * MAX_IDS];
extern uint8_t ordered_bytes[2 * MAX_IDS]; /* lengths of their texts */
extern struct spelling spellings[MAX_SPELLINGS];
extern struct trie all_tokens, other_tokens;
extern uint32_t plain_tokens[PLAIN_LETTERS + 1][MASK_WORDS]; /* by the most letters */
extern uint32_t short_tokens[SHORT_BYTES + 1][MASK_WORDS];   /* all ids, by the most bytes */

extern uint32_t mask_words; /* of the vocabulary */

/* Bytes of the UTF-8 character that begins here, 0: none does. */
uint32_t whole_character(const uint8_t *text, uint32_t left);

/* Returns 0, or what there was too much of. */
const char *trie_build(const uint8_t *table_bytes, const struct sealhost_token_table *table);

#endif
