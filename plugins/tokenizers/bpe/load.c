#include "arena.h"
#include "blanks.h"
#include "guest.h"
#include "pairs.h"
#include "pieces.h"
#include "rules.h"
#include "sealhost_alphabet.h"
#include "sealhost_guest.h"
#include "split.h"
#include "unicode.h"

int32_t guest_accept(const struct source *source, enum spelling *spelling) {
    int gemma = section_is(source->model, "gemma4");
    if (!gemma && !section_is(source->model, "gpt2"))
        return fail_unsupported("tokenizer.ggml.model", "'gpt2' (byte-level BPE) or 'gemma4'", source->model);
    *spelling = gemma ? SPELLS_BLANKS : SPELLS_ALPHABET;
    rule = rules_find(source->pre);
    if (!rule || (rule->steps[1].kind == STEP_WORDS) != gemma) /* gemma4's pieces go with its spelling */
        return fail_unsupported(
            "tokenizer.ggml.pre",
            "'gpt-2', 'gpt-neox', 'mpt', 'smollm', 'starcoder', 'refact', 'command-r', 'llama-bpe', 'dbrx', 'qwen2', "
            "'qwen35', 'tekken', 'gpt-4o', 'falcon', 'deepseek-llm', 'deepseek-coder', 'default' or another name of these",
            source->pre);
    return SEALHOST_OK;
}

static uint32_t space_in(const uint8_t *text, uint32_t length) {
    uint32_t at = 1;
    while (at < length && text[at] != ' ')
        at++;
    return at;
}

/* The bytes that one side of a merge spells, written at `to` at or below it; -1 when it spells none. */
static int32_t decode_side(uint8_t *to, const uint8_t *side, uint32_t length) {
    if (vocabulary.spelling == SPELLS_BLANKS)
        return (int32_t)blanks_decode(to, side, length);
    return alphabet_decode(to, side, length);
}

/* One merge "left right". A side or a result that is no findable token can never take part: it stays out, and
 * so does a text outside the alphabet. Decodes in place: the two sides become neighbours, which spell the result. */
static int32_t read_merge(struct merge *merge, uint32_t rank, uint8_t *text, uint32_t length) {
    uint32_t space = space_in(text, length);
    merge->left = NO_ID;
    if (space + 1 >= length)
        return fail_at("merge is not 'left right'", rank);
    int32_t left = decode_side(text, text, space);
    int32_t right = left > 0 ? decode_side(text + left, text + space + 1, length - space - 1) : -1;
    if (right <= 0)
        return SEALHOST_OK;
    const struct tokens *tokens = &vocabulary.tokens;
    uint32_t first = tokens_find(tokens, text, (uint32_t)left);
    uint32_t second = tokens_find(tokens, text + left, (uint32_t)right);
    uint32_t merged = tokens_find(tokens, text, (uint32_t)(left + right));
    if (first != NO_ID && second != NO_ID && merged != NO_ID)
        *merge = (struct merge){first, second, merged};
    return SEALHOST_OK;
}

int32_t guest_build(struct source *source) {
    uint32_t count = source->merges.count;
    unicode_prepare();
    blanks_learn();
    struct merge *merges = arena_take(count, sizeof *merges);
    if (!merges)
        return fail_full();
    for (uint32_t rank = 0; rank < count; rank++) {
        uint32_t length;
        uint8_t *text = text_of(&source->merges, rank, &length);
        int32_t status = read_merge(&merges[rank], rank, text, length);
        if (status)
            return status;
    }
    return pairs_build(merges, count) ? SEALHOST_OK : fail_full();
}

int32_t guest_encode(const uint8_t *at, const uint8_t *end, int first, uint32_t *ids) {
    (void)first; /* a prefixed space has no meaning in BPE by rank */
    if (vocabulary.spelling == SPELLS_BLANKS) {
        struct stretch stretch = blanks_write(at, end, 0);
        at = stretch.at;
        end = stretch.end;
    }
    struct scan scan = {.at = at, .end = end};
    int32_t count = 0;
    while (scan.at < end) {
        const uint8_t *piece = scan.at;
        int32_t more = piece_ids(piece, (uint32_t)(next_piece(&scan) - piece), ids + count);
        if (more < 0)
            return -1;
        count += more;
    }
    return count;
}
