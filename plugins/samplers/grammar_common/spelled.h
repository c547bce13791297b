/* Which tokens are spelled with which characters: sets of ids for a few groups of characters that patterns seldom cut, so
 * that all tokens that a loop's letters spell are found by joining sets, with no walk (sweep.h).
 */
#ifndef GRAMMAR_SPELLED_H
#define GRAMMAR_SPELLED_H

#include <stdint.h>

#include "limits.h"
#include "trie.h"

#define GROUPS 32u
#define GROUP_WHOLE (1u << 0) /* characters beyond ASCII */
#define GROUP_TORN (1u << 1)  /* parts of such, NUL and SOH */

/* Ids that begin with a character of a group, and those that have one after the first; what is torn is all of GROUP_TORN. */
extern uint32_t beginning[GROUPS][MASK_WORDS], following[GROUPS][MASK_WORDS];
extern struct spelling group_bytes[GROUPS];
extern uint8_t group_of[128];
extern const char *const group_characters[GROUPS]; /* but for the first two and the last */
extern uint32_t begun[GROUPS]; /* how many begin so */

extern uint32_t ordinary_tokens; /* how many there are */

/* Fills all of them from `ordered`, of `count` tokens; the texts stay. */
void spelled_build(const uint8_t *texts, const uint32_t *offsets, uint32_t count);

/* The groups all of whose characters are among these. */
uint32_t groups_within(const struct spelling *bytes);

/* Tokens of whole characters, the first of one of some groups and all others of others. */
struct spelled {
    uint32_t first, others;
    uint32_t longest; /* bytes of a beginning of a token that is spelled so; what is shorter than SHORT_BYTES counts as that less one */
    uint32_t ids[MASK_WORDS];
};

/* Kept for the next time. */
const struct spelled *tokens_spelled(uint32_t first, uint32_t others);

#endif
