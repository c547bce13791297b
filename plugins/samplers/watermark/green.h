/* Which ids are green after a given one: the keyed pseudo-random partition of Kirchenbauer et al.
 *
 *     seed = SipHash-2-4(key, the previous id as 4 little-endian bytes)
 *     an id is green if mix(mix(id ^ low half of seed) ^ high half of seed) < gamma * 2^32
 *
 * mix is MurmurHash3's 32-bit finaliser. Each id tosses its own coin, so that four go through SIMD at a time and nobody
 * permutes a vocabulary: the green share is gamma on average, and the count of green tokens in a text that does not
 * know the key has the paper's distribution. Sources: Aumasson, Bernstein: SipHash, INDOCRYPT 2012; Appleby: MurmurHash3.
 * `host/cli/plugin_detect.py` computes the same.
 */
#ifndef GREEN_H
#define GREEN_H

#include <stdint.h>
#include <wasm_simd128.h>

#define NO_PREVIOUS 0xFFFFFFFFu /* stands before the first id of an empty prompt */

struct key {
    uint64_t low, high; /* the 16 bytes, little-endian */
};

struct partition {
    uint32_t low, high; /* of the seed */
    uint32_t below;     /* gamma * 2^32, rounded down */
};

struct partition partition_after(const struct key *key, uint32_t previous, double gamma);

static inline v128_t mixed(v128_t x) {
    x = wasm_v128_xor(x, wasm_u32x4_shr(x, 16));
    x = wasm_i32x4_mul(x, wasm_i32x4_splat((int32_t)0x85EBCA6Bu));
    x = wasm_v128_xor(x, wasm_u32x4_shr(x, 13));
    x = wasm_i32x4_mul(x, wasm_i32x4_splat((int32_t)0xC2B2AE35u));
    return wasm_v128_xor(x, wasm_u32x4_shr(x, 16));
}

/* Lanes of all ones for the green ones of four ids. */
static inline v128_t green(v128_t ids, const struct partition *partition) {
    v128_t hash = mixed(wasm_v128_xor(ids, wasm_i32x4_splat((int32_t)partition->low)));
    hash = mixed(wasm_v128_xor(hash, wasm_i32x4_splat((int32_t)partition->high)));
    return wasm_u32x4_lt(hash, wasm_i32x4_splat((int32_t)partition->below));
}

#endif
