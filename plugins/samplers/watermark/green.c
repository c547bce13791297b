#include "green.h"

static uint64_t rotated(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int count) {
    for (; count; count--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32) + v[3];
        v[2] += v[1];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[2] = rotated(v[2], 32);
    }
}

/* SipHash-2-4 of a message of four bytes: one block, which ends with the length. */
static uint64_t siphash(const struct key *key, uint32_t message) {
    uint64_t v[4] = {key->low ^ 0x736f6d6570736575ull, key->high ^ 0x646f72616e646f6dull,
                     key->low ^ 0x6c7967656e657261ull, key->high ^ 0x7465646279746573ull};
    uint64_t block = (uint64_t)4 << 56 | message;
    v[3] ^= block;
    rounds(v, 2);
    v[0] ^= block;
    v[2] ^= 0xFF;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct partition partition_after(const struct key *key, uint32_t previous, double gamma) {
    uint64_t seed = siphash(key, previous);
    return (struct partition){(uint32_t)seed, (uint32_t)(seed >> 32), (uint32_t)(gamma * 0x1p32)};
}
