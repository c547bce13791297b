#include "blanks.h"
#include "guest.h"
#include "pieces.h"
#include "ranks.h"
#include "sealhost_guest.h"

int32_t guest_accept(const struct source *source, enum spelling *spelling) {
    *spelling = SPELLS_BLANKS;
    if (!section_is(source->model, "llama"))
        return fail_unsupported("tokenizer.ggml.model", "'llama' (SentencePiece BPE)", source->model);
    if (source->pre.length && !section_is(source->pre, "default")) /* this model has no rules for splitting */
        return fail_unsupported("tokenizer.ggml.pre", "'default' or nothing", source->pre);
    return SEALHOST_OK;
}

int32_t guest_build(struct source *source) {
    blanks_learn();
    return ranks_read(source->scores, source->tokens.count) ? SEALHOST_OK : fail_full();
}

int32_t guest_encode(const uint8_t *at, const uint8_t *end, int first, uint32_t *ids) {
    struct stretch stretch = blanks_write(at, end, first && vocabulary.add_space_prefix);
    int32_t count = 0;
    for (const uint8_t *piece = stretch.at; piece < stretch.end;) {
        const uint8_t *next = blanks_piece_end(piece, stretch.end);
        int32_t more = piece_ids(piece, (uint32_t)(next - piece), ids + count);
        if (more < 0)
            return -1;
        count += more;
        piece = next;
    }
    return count;
}
