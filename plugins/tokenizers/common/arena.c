#include "arena.h"

#define ALIGNMENT 8u

uint8_t arena[ARENA_BYTES] __attribute__((aligned(16)));
static uint32_t used;

void *arena_take(uint64_t count, uint32_t size) {
    if (count > ARENA_BYTES) /* keeps the product below 2^64 */
        return 0;
    uint32_t start = size == 1 ? used : (used + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (start > ARENA_BYTES || count * size > ARENA_BYTES - start)
        return 0;
    used = start + (uint32_t)(count * size);
    return arena + start;
}

uint32_t arena_mark(void) {
    return used;
}

void arena_release(uint32_t mark) {
    used = mark;
}
