#include "encode.h"

#include "blanks.h"
#include "guest.h"
#include "pieces.h"
#include "sealhost.h"
#include "special.h"

static int32_t encode_body(const uint8_t *text, const uint8_t *end, int control, uint32_t *ids) {
    int32_t count = 0;
    for (const uint8_t *at = text; at < end;) {
        struct special_match match = special_find(&vocabulary.tokens, at, end, control);
        int32_t more = at < match.start ? guest_encode(at, match.start, at == text, ids + count) : 0;
        if (more < 0)
            return -1;
        count += more;
        if (match.id != NO_ID)
            ids[count++] = match.id;
        at = match.end;
    }
    return count;
}

int32_t encode_text(const uint8_t *text, uint32_t length, uint32_t flags, uint32_t *ids) {
    int special = (flags & SEALHOST_ADD_SPECIAL) != 0;
    uint32_t *body = ids + 1; /* room for BOS, moved away below when there is none */
    blanks_begin();
    pieces_begin();
    int32_t count = encode_body(text, text + length, (flags & SEALHOST_PARSE_SPECIAL) != 0, body);
    if (count < 0)
        return -1;
    /* clause 3.6: what the text itself begins or ends with is neither doubled nor stripped */
    int bos = special && vocabulary.add_bos && !(count && body[0] == (uint32_t)vocabulary.bos);
    int eos = special && vocabulary.add_eos && !(count && body[count - 1] == (uint32_t)vocabulary.eos);
    if (eos)
        body[count++] = (uint32_t)vocabulary.eos;
    if (bos) {
        ids[0] = (uint32_t)vocabulary.bos;
        return count + 1;
    }
    for (int32_t i = 0; i < count; i++)
        ids[i] = body[i];
    return count;
}
