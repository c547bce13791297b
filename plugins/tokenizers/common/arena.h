/* One block of memory, right behind the guest's constants.
 *
 *   loading:  [what is kept ─▶         ][vocabulary stream and work space ─▶        ]
 *   then:     [what is kept][work space of the current piece ─▶                     ]
 *
 * What outlives loading lies together and beside the constants, so that a snapshot carries no gap and each instance starts
 * with all of it in one piece.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdint.h>

#include "limits.h" /* the guest's own: ARENA_BYTES */

/* For what loading fills outside of the arena: with the constants it is part of the one piece, and no page of its own that each
 * instance would have to be given. */
#define BESIDE_CONSTANTS __attribute__((section(".data")))

extern uint8_t arena[ARENA_BYTES];

/* `count` elements of `size` bytes for a while; 0 when the arena is full. 8-aligned, but single bytes follow what was taken
 * before without a gap, so that pieces of a stream join. */
void *arena_take(uint64_t count, uint32_t size);

/* A mark to which arena_release returns everything that was taken since. */
uint32_t arena_mark(void);
void arena_release(uint32_t mark);

/* The same, to be kept; 8-aligned and zero. Only before the wipe. */
void *arena_keep(uint64_t count, uint32_t size);

/* Gives back and clears all that was ever taken for a while: as zeros it costs a snapshot nothing. */
void arena_wipe(void);

/* Where the first of it lies: before the wipe, the vocabulary stream. */
uint8_t *arena_begin(void);

#endif
