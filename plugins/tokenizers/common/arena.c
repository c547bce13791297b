#include "arena.h"

#include "sealhost_guest.h"

#define ALIGNMENT 8u

uint8_t arena[ARENA_BYTES] __attribute__((aligned(16)));
static uint32_t used, dirty; /* from below: what is taken, and the most that ever was */
static uint32_t kept_bytes; /* from above */

static int fits(uint64_t count, uint32_t size, uint32_t room) {
    return count <= ARENA_BYTES /* keeps the product below 2^64 */ && count * size <= room;
}

void *arena_take(uint64_t count, uint32_t size) {
    uint32_t start = size == 1 ? used : (used + ALIGNMENT - 1) & ~(ALIGNMENT - 1), end = ARENA_BYTES - kept_bytes;
    if (start > end || !fits(count, size, end - start))
        return 0;
    used = start + (uint32_t)(count * size);
    if (used > dirty)
        dirty = used;
    return arena + start;
}

uint32_t arena_mark(void) {
    return used;
}

void arena_release(uint32_t mark) {
    used = mark;
}

void *arena_keep(uint64_t count, uint32_t size) {
    uint32_t room = (ARENA_BYTES - kept_bytes - dirty) & ~(ALIGNMENT - 1); /* above `dirty`: so it is zero */
    if (!fits(count, size, room))
        return 0;
    kept_bytes += ((uint32_t)(count * size) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    return arena + ARENA_BYTES - kept_bytes;
}

void arena_wipe(void) {
    clear_bytes(arena, dirty);
    used = dirty = 0;
}
