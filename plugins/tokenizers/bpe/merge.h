/* Byte-pair merging of one piece of text.
 *
 * The best-ranked pair merges first, the leftmost among equals, until no neighbours merge. A heap of
 * (rank, place) makes that O(n log n) for a piece of n bytes: 16 n bytes of symbols and 16 n of heap.
 */
#ifndef MERGE_H
#define MERGE_H

#include <stdint.h>

#include "tables.h"

/* Writes the ids of `length` >= 1 bytes to `ids`, which must have room for as many; returns their number, or -1
 * when the work space is too small. Bytes for which the vocabulary has no token are left out before merging. */
int32_t merge_piece(const struct tables *tables, const uint8_t *bytes, uint32_t length, uint32_t *ids);

#endif
