/* One bump allocator over a fixed block of memory.
 *
 * Layout: [vocabulary stream, later the token bytes][tables][work space of the current piece].
 * Memory above the highest allocation so far is zero, as the module starts with zeros.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdint.h>

#include "limits.h" /* the guest's own: ARENA_BYTES */

extern uint8_t arena[ARENA_BYTES];

/* `count` elements of `size` bytes; 0 when the arena is full. 8-aligned, but single bytes follow what was taken
 * before without a gap, so that pieces of a stream join. */
void *arena_take(uint64_t count, uint32_t size);

/* A mark to which arena_release returns everything that was taken since. */
uint32_t arena_mark(void);
void arena_release(uint32_t mark);

#endif
