#include "ranks.h"

#include "arena.h"
#include "sealhost_guest.h"

static uint32_t *ranks;

/* The bits of a float in an order that unsigned numbers follow, the highest value first. Zero has one rank, whatever its
 * sign; a NaN has one, too, so that a bad file gives one defined answer. */
static uint32_t rank_of_bits(uint32_t bits) {
    if (bits == 0x80000000u)
        bits = 0;
    if (bits == 0xFFFFFFFFu) /* a NaN whose rank would be NO_RANK of chain.h */
        bits--;
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

int ranks_read(const uint8_t *scores, uint32_t count) {
    ranks = arena_keep(count, sizeof *ranks);
    for (uint32_t id = 0; ranks && id < count; id++)
        ranks[id] = rank_of_bits(load_u32(scores + 4 * id));
    return ranks != 0;
}

uint32_t rank_of(uint32_t id) {
    return ranks[id];
}
