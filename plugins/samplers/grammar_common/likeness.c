/* Pairs of positions that one text leads to, breadth first: the first pair of which one goes on with a byte and the other
 * does not ends it, or the last pair that there is time for. What is found is a lower bound, and that is all it is used as. */
#include "likeness.h"

#include "positions.h"

#define PLACES (4u * LIKE_PAIRS)

struct pair {
    uint32_t a, b, bytes; /* the text's */
};

static struct pair pairs[LIKE_PAIRS];
static uint32_t pair_count;
static uint16_t places[PLACES]; /* open addressing: 1 + index of a pair, 0: free */

/* 0: there is no more room. */
static int add(uint32_t a, uint32_t b, uint32_t bytes) {
    uint32_t at = (a * 0x9e3779b1u ^ b * 0x85ebca6bu) >> 8;
    for (; places[at %= PLACES]; at++)
        if (pairs[places[at] - 1u].a == a && pairs[places[at] - 1u].b == b)
            return 1;
    if (pair_count == LIKE_PAIRS)
        return 0;
    pairs[pair_count++] = (struct pair){a, b, bytes};
    places[at] = (uint16_t)pair_count;
    return 1;
}

/* Compares what follows a pair; the number of bytes for which the first two are alike as far as this one tells. */
static uint32_t compare(struct pair pair, uint32_t most, uint32_t enough) {
    for (uint32_t class = 0; class < class_count && pair.bytes < most; class++) {
        uint32_t a = next_aside(pair.a, class_byte[class]), b = next_aside(pair.b, class_byte[class]), left = most - pair.bytes - 1;
        if (!may_look_aside() || aside_spent() > enough)
            return pair.bytes;
        if (a == b)
            continue;
        if (a == NOWHERE || b == NOWHERE)
            return pair.bytes;
        if (same_for(a, b))
            most = same_for(a, b) < left ? pair.bytes + 1 + same_for(a, b) : most;
        else if (left && usual(a, left) != usual(b, left) && !add(usual(a, left), usual(b, left), pair.bytes + 1))
            most = pair.bytes + 1;
    }
    return most;
}

uint32_t alike_for(uint32_t a, uint32_t b, uint32_t most) {
    uint32_t spare = same_for(a, b), enough = aside_spent() + LIKE_WORK;
    if (spare)
        return spare < most ? spare : most;
    for (uint32_t i = 0; i < PLACES; i++)
        places[i] = 0;
    pair_count = 0;
    add(usual(a, most), usual(b, most), 0);
    for (uint32_t i = 0; i < pair_count && pairs[i].bytes < most; i++)
        most = compare(pairs[i], most, enough);
    return most;
}
