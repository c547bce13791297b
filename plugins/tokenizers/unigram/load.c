#include "arena.h"
#include "blanks.h"
#include "guest.h"
#include "scores.h"
#include "sealhost_guest.h"
#include "trie.h"

int32_t guest_accept(const struct source *source, enum spelling *spelling) {
    *spelling = SPELLS_BLANKS;
    if (!section_is(source->model, "t5"))
        return fail_unsupported("tokenizer.ggml.model", "'t5' (SentencePiece Unigram)", source->model);
    if (source->pre.length && !section_is(source->pre, "default")) /* this model has no rules for splitting */
        return fail_unsupported("tokenizer.ggml.pre", "'default' or nothing", source->pre);
    return SEALHOST_OK;
}

static const uint8_t *token_text(uint32_t id, uint32_t *length) {
    const struct tokens *tokens = &vocabulary.tokens;
    *length = tokens->offsets[id + 1] - tokens->offsets[id];
    return tokens->bytes + tokens->offsets[id];
}

/* A text in the order of the sort: its first eight bytes, which most comparisons end with, and its id. */
struct entry {
    uint64_t key; /* big-endian, zeros behind the end */
    uint32_t id;
};

static struct entry entry_of(uint32_t id) {
    uint32_t length;
    const uint8_t *text = token_text(id, &length);
    uint64_t key = 0;
    for (uint32_t i = 0; i < 8; i++)
        key = key << 8 | (i < length ? text[i] : 0);
    return (struct entry){key, id};
}

/* Bytes that two texts begin with alike. */
static uint32_t common_prefix(uint32_t one, uint32_t other) {
    uint32_t length, other_length, at = 0;
    const uint8_t *text = token_text(one, &length), *other_text = token_text(other, &other_length);
    while (at < length && at < other_length && text[at] == other_text[at])
        at++;
    return at;
}

/* Whether the first text comes later in the order of their bytes. */
static int is_after(struct entry one, struct entry other) {
    if (one.key != other.key)
        return one.key > other.key;
    uint32_t length, other_length, at = common_prefix(one.id, other.id);
    const uint8_t *text = token_text(one.id, &length), *other_text = token_text(other.id, &other_length);
    return at < length && (at == other_length || text[at] > other_text[at]);
}

/* Moves the entry at `at` down until no entry below it comes later. */
static void sift(struct entry *order, uint32_t at, uint32_t count) {
    struct entry moved = order[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && is_after(order[child + 1], order[child]);
        if (!is_after(order[child], moved))
            break;
        order[at] = order[child];
        at = child;
    }
    order[at] = moved;
}

/* Heapsort by bytes: no recursion, and no order of input that is slow. */
static void sort(struct entry *order, uint32_t count) {
    for (uint32_t at = count / 2; at--;)
        sift(order, at, count);
    for (uint32_t left = count; left > 1; left--) {
        struct entry last = order[0];
        order[0] = order[left - 1];
        order[left - 1] = last;
        sift(order, 0, left - 1);
    }
}

/* Whether text can become this token: it is found by its bytes. */
static int is_candidate(uint32_t id) {
    uint32_t length;
    const uint8_t *text = token_text(id, &length);
    return length && tokens_find(&vocabulary.tokens, text, length) == id;
}

/* The candidates in the order of their texts; returns their number. */
static uint32_t sort_candidates(struct entry *order) {
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocabulary.tokens.count; id++)
        if (is_candidate(id))
            order[count++] = entry_of(id);
    sort(order, count);
    return count;
}

int32_t guest_build(struct source *source) {
    uint32_t most = vocabulary.tokens.count;
    if (!scores_read(source->scores))
        return fail_full();
    struct entry *order = arena_take(most, sizeof *order);
    struct branch *branches = arena_take(most, sizeof *branches);
    if (!order || !branches)
        return fail_full();
    uint32_t count = sort_candidates(order);
    for (uint32_t i = 0; i < count; i++)
        branches[i] = (struct branch){.id = order[i].id, .shared = i ? common_prefix(order[i].id, order[i - 1].id) : 0};
    return trie_build(&vocabulary.tokens, branches, count) ? SEALHOST_OK : fail_full();
}

int32_t guest_encode(const uint8_t *at, const uint8_t *end, int first, uint32_t *ids) {
    struct stretch stretch = blanks_write(at, end, first && vocabulary.add_space_prefix);
    return guest_merge(stretch.at, (uint32_t)(stretch.end - stretch.at), ids);
}
