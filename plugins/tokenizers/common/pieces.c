#include "pieces.h"

#include "guest.h"
#include "sealhost_guest.h"
#include "tokens.h"

#define SLOTS 2048u /* a long text's common words find a slot; 40 KiB, for every page that a request touches costs it 2 us */
#define LONGEST 64u /* bytes; longer ones hardly repeat */

struct seen {
    const uint8_t *piece;
    const uint32_t *ids;
    uint32_t call;
    uint32_t length, count;
};

static struct seen slots[SLOTS];
static uint32_t call;

void pieces_begin(void) {
    call++;
}

int32_t piece_ids(const uint8_t *piece, uint32_t length, uint32_t *ids) {
    if (length > LONGEST)
        return guest_merge(piece, length, ids);
    struct seen *seen = &slots[hash_bytes(piece, length) % SLOTS];
    if (seen->call == call && seen->length == length && equal_bytes(seen->piece, piece, length)) {
        for (uint32_t i = 0; i < seen->count; i++)
            ids[i] = seen->ids[i];
        return (int32_t)seen->count;
    }
    int32_t count = guest_merge(piece, length, ids);
    if (count >= 0)
        *seen = (struct seen){piece, ids, call, length, (uint32_t)count};
    return count;
}
