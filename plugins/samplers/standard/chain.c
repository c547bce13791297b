#include "chain.h"

#include "limits.h"

struct candidate candidates[VOCAB_CAPACITY], spare_candidates[VOCAB_CAPACITY];

uint32_t chain_draw(const struct row *row, const struct chain *chain) {
    uint32_t token = head_draw(row, chain);
    return token != NO_TOKEN ? token : buckets_draw(row, chain);
}
