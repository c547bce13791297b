/* One block of memory that is used up from both ends.
 *
 *   [vocabulary stream and work space ─▶          free          ◀─ what is kept]
 *
 * What outlives loading lies together at the upper end, so that a snapshot carries no gap. When loading is done the lower end
 * is wiped, and from then on it is the work space of the current piece.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdint.h>

#include "limits.h" /* the guest's own: ARENA_BYTES */

extern uint8_t arena[ARENA_BYTES];

/* `count` elements of `size` bytes from the lower end; 0 when the arena is full. 8-aligned, but single bytes follow what was
 * taken before without a gap, so that pieces of a stream join. */
void *arena_take(uint64_t count, uint32_t size);

/* A mark to which arena_release returns everything that was taken since. */
uint32_t arena_mark(void);
void arena_release(uint32_t mark);

/* The same from the upper end, never to be given back; 8-aligned and zero. Only before the wipe. */
void *arena_keep(uint64_t count, uint32_t size);

/* Gives back and clears all that was ever taken: as zeros it costs a snapshot nothing. */
void arena_wipe(void);

#endif
