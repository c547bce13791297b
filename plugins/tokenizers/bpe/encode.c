#include "encode.h"

#include "merge.h"
#include "sealhost.h"
#include "special.h"

/* Ids of a piece: the token that it is as a whole where the vocabulary works that way, else by merging. */
static int32_t encode_piece(const struct vocabulary *vocabulary, const uint8_t *piece, uint32_t length, uint32_t *ids) {
    if (vocabulary->whole_pieces) {
        ids[0] = tables_find(&vocabulary->tables, piece, length);
        if (ids[0] != NO_ID)
            return 1;
    }
    return merge_piece(&vocabulary->tables, piece, length, ids);
}

/* Ids of a stretch of text without special tokens; may be empty. */
static int32_t encode_stretch(
    const struct vocabulary *vocabulary, const uint8_t *at, const uint8_t *end, uint32_t *ids) {
    struct scan scan = {vocabulary->pre, at, end, 0};
    int32_t count = 0;
    while (scan.at < end) {
        const uint8_t *piece = scan.at;
        int32_t more = encode_piece(vocabulary, piece, (uint32_t)(next_piece(&scan) - piece), ids + count);
        if (more < 0)
            return -1;
        count += more;
    }
    return count;
}

static int32_t encode_body(
    const struct vocabulary *vocabulary, const uint8_t *at, const uint8_t *end, int control, uint32_t *ids) {
    int32_t count = 0;
    while (at < end) {
        struct special_match match = special_find(&vocabulary->tables.tokens, at, end, control);
        int32_t more = encode_stretch(vocabulary, at, match.start, ids + count);
        if (more < 0)
            return -1;
        count += more;
        if (match.id != NO_ID)
            ids[count++] = match.id;
        at = match.end;
    }
    return count;
}

int32_t encode_text(
    const struct vocabulary *vocabulary, const uint8_t *text, uint32_t length, uint32_t flags, uint32_t *ids) {
    int special = (flags & SEALHOST_ADD_SPECIAL) != 0;
    uint32_t *body = ids + 1; /* room for BOS, moved away below when there is none */
    int32_t count = encode_body(vocabulary, text, text + length, (flags & SEALHOST_PARSE_SPECIAL) != 0, body);
    if (count < 0)
        return -1;
    /* clause 3.6: what the text itself begins or ends with is neither doubled nor stripped */
    int bos = special && vocabulary->add_bos && !(count && body[0] == (uint32_t)vocabulary->bos);
    int eos = special && vocabulary->add_eos && !(count && body[count - 1] == (uint32_t)vocabulary->eos);
    if (eos)
        body[count++] = (uint32_t)vocabulary->eos;
    if (bos) {
        ids[0] = (uint32_t)vocabulary->bos;
        return count + 1;
    }
    for (int32_t i = 0; i < count; i++)
        ids[i] = body[i];
    return count;
}
