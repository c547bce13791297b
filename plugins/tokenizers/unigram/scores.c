#include "scores.h"

#include "arena.h"
#include "sealhost_guest.h"
#include "vocabulary.h"

#define UNKNOWN_PENALTY 10.0f /* sentencepiece's */

static float *scores;
static float unknown;

int scores_read(const uint8_t *from) {
    float worst = 3.402823466e38f;
    uint32_t count = vocabulary.tokens.count;
    scores = arena_keep(count, sizeof *scores);
    if (!scores)
        return 0;
    for (uint32_t id = 0; id < count; id++) {
        __builtin_memcpy(&scores[id], from + 4 * id, sizeof *scores);
        if (!(scores[id] >= -1e30f && scores[id] <= 1e30f)) /* NaN and infinities of a bad file: sums stay finite */
            scores[id] = -1e30f;
        uint8_t type = vocabulary.tokens.types[id];
        if ((type == SEALHOST_TYPE_NORMAL || type == 0) && scores[id] < worst)
            worst = scores[id];
    }
    unknown = worst - UNKNOWN_PENALTY;
    return 1;
}

double score_of(uint32_t id) {
    return scores[id];
}

double unknown_score(void) {
    return unknown;
}
