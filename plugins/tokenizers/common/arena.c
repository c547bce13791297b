#include "arena.h"

#include "sealhost_guest.h"

#define ALIGNMENT 8u
#define ALIGNED(bytes) (((bytes) + ALIGNMENT - 1) & ~(ALIGNMENT - 1))

uint8_t arena[ARENA_BYTES] __attribute__((aligned(16)));
static BESIDE_CONSTANTS uint32_t kept;
/* What is taken for a while: where it begins and ends, and the most that it ever was. What a stream becomes takes about as much
 * as the stream and the work on it. */
static uint32_t base = ARENA_BYTES / 2, used = ARENA_BYTES / 2, dirty = ARENA_BYTES / 2;

static int fits(uint64_t count, uint32_t size, uint32_t room) {
    return count <= ARENA_BYTES /* keeps the product below 2^64 */ && count * size <= room;
}

void *arena_take(uint64_t count, uint32_t size) {
    uint32_t start = size == 1 ? used : ALIGNED(used);
    if (start > ARENA_BYTES || !fits(count, size, ARENA_BYTES - start))
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
    uint32_t start = ALIGNED(kept);
    if (!fits(count, size, base - start))
        return 0;
    kept = start + (uint32_t)(count * size);
    return arena + start;
}

void arena_wipe(void) {
    clear_bytes(arena + base, dirty - base);
    base = used = dirty = ALIGNED(kept);
}

uint8_t *arena_begin(void) {
    return arena + base;
}
