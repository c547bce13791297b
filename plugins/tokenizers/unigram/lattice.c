/* The best way to cut a text into tokens: the highest sum of scores (Viterbi).
 *
 * From the left, each place keeps the best sum with which it can be reached and the token that ends there: 16 bytes for each
 * byte of text. Sums are float64 from the text's beginning on, in the order of the text, and a later way must be better to
 * win, so that ties fall as in the `tokenizers` library and llama.cpp. A place is left by at most as many tokens as the longest
 * one has bytes.
 */
#include "arena.h"
#include "guest.h"
#include "sealhost_guest.h"
#include "scores.h"
#include "trie.h"
#include "utf8.h"

#define UNREACHED (-1.0 / 0.0)

struct place {
    double sum;
    uint32_t id;   /* of the token that ends here; NO_ID: a character that no token spells */
    uint32_t from; /* where it begins */
};

static void reach(struct place *to, double sum, uint32_t id, uint32_t from) {
    if (sum > to->sum)
        *to = (struct place){sum, id, from};
}

/* Follows all tokens that begin at `at`, and the one character there in case that none spells it. */
static uint32_t leave(struct place *places, const uint8_t *text, uint32_t at, uint32_t length) {
    uint32_t character = utf8_at(text + at, text + length).length;
    double sum = places[at].sum;
    int spelled = 0;
    uint32_t node = trie_child(TRIE_ROOT, text[at]);
    for (uint32_t end = at + 1; node != NO_NODE; end++) {
        uint32_t id = trie_id(node);
        if (id != NO_ID) {
            reach(&places[end], sum + score_of(id), id, at);
            spelled |= end == at + character;
        }
        node = end < length ? trie_child(node, text[end]) : NO_NODE;
    }
    if (!spelled)
        reach(&places[at + character], sum + unknown_score(), NO_ID, at);
    return at + character;
}

static int has_bytes(const uint8_t *text, uint32_t from, uint32_t to) {
    for (uint32_t at = from; at < to; at++)
        if (vocabulary.tokens.byte_ids[text[at]] == NO_ID)
            return 0;
    return 1;
}

/* Ids of a character that no token spells, backwards: its bytes, or the unknown token, once for a run of them. */
static uint32_t write_unknown(const uint8_t *text, struct place place, uint32_t to, uint32_t last, uint32_t *ids) {
    uint32_t count = 0;
    if (has_bytes(text, place.from, to))
        for (uint32_t at = to; at > place.from; at--)
            ids[count++] = vocabulary.tokens.byte_ids[text[at - 1]];
    else if (vocabulary.unknown >= 0 && last != (uint32_t)vocabulary.unknown)
        ids[count++] = (uint32_t)vocabulary.unknown;
    return count;
}

static int32_t write_ids(const struct place *places, const uint8_t *text, uint32_t length, uint32_t *ids) {
    uint32_t count = 0;
    for (uint32_t at = length; at; at = places[at].from)
        if (places[at].id != NO_ID)
            ids[count++] = places[at].id;
        else
            count += write_unknown(text, places[at], at, count ? ids[count - 1] : NO_ID, ids + count);
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t other = ids[count - 1 - i];
        ids[count - 1 - i] = ids[i];
        ids[i] = other;
    }
    return (int32_t)count;
}

int32_t guest_merge(const uint8_t *text, uint32_t length, uint32_t *ids) {
    uint32_t mark = arena_mark();
    struct place *places = arena_take((uint64_t)length + 1, sizeof *places);
    arena_release(mark);
    if (!places)
        return -1;
    for (uint32_t at = 1; at <= length; at++)
        places[at].sum = UNREACHED;
    places[0].sum = 0;
    for (uint32_t at = 0; at < length;)
        at = leave(places, text, at, length);
    return write_ids(places, text, length, ids);
}
