/* Tokens that are spelled in the text as they stand: control, unknown and user-defined ones, in a trie.
 *
 * At each place the longest match wins; the scan goes from left to right and never overlaps.
 */
#ifndef SPECIAL_H
#define SPECIAL_H

#include <stdint.h>

#include "tokens.h"

/* Adds the bytes of an id; empty ones are ignored. 0 when the arena is full. */
int special_add(const struct tokens *tokens, uint32_t id);

/* A match in the text: [start, end) spells `id`; start == the text's end when there is none. */
struct special_match {
    const uint8_t *start;
    const uint8_t *end;
    uint32_t id;
};

/* The first match in [at, end). Control and unknown tokens count only if `control` is set. */
struct special_match special_find(const struct tokens *tokens, const uint8_t *at, const uint8_t *end, int control);

#endif
