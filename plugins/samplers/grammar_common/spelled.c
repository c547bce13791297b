#include "spelled.h"

#include "sealhost_guest.h"

#define KEPT 12u
#define MAX_LONG 8192u /* ids; were there more, any beginning would count as long */

uint32_t beginning[GROUPS][MASK_WORDS], following[GROUPS][MASK_WORDS];
struct spelling group_bytes[GROUPS];
uint8_t group_of[128];
uint32_t begun[GROUPS], ordinary_tokens;

/* From group 2 on. Digits and letters are cut where hexadecimal numbers end; all else is of the last. */
const char *const group_characters[GROUPS] = {
    "", "",
    "\t", "\n", " ", "0123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ", "\"", "\\", "-", ".", "_", ",", ";",
    ":", "/", "@", "'", "<", ">", "()", "[]", "{}", "*", "+", "=", "!?", "#$%&^`|~", "",
};

static struct spelled kept[KEPT];
static uint32_t next_kept;
static const uint8_t *texts;
static const uint32_t *offsets;
static uint32_t long_ids[MAX_LONG], long_count; /* of at least SHORT_BYTES */

static void find_groups(void) {
    for (uint32_t byte = 0; byte < 128; byte++)
        group_of[byte] = byte < 2 ? 1 : GROUPS - 1;
    for (uint32_t group = 0; group < GROUPS; group++)
        for (const char *at = group_characters[group]; *at; at++)
            group_of[(uint8_t)*at] = (uint8_t)group;
    group_bytes[0].bits[0] = SPELLS_WHOLE;
    group_bytes[1].bits[0] = SPELLS_TORN;
    for (uint32_t byte = 2; byte < 128; byte++)
        group_bytes[group_of[byte]].bits[byte / 32] |= 1u << byte % 32;
}

void spelled_build(const uint8_t *token_texts, const uint32_t *token_offsets, uint32_t count) {
    find_groups();
    texts = token_texts;
    offsets = token_offsets;
    ordinary_tokens = count;
    clear_bytes(beginning, sizeof beginning);
    clear_bytes(following, sizeof following);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = ordered[i], word = id / 32, bit = 1u << id % 32, end = offsets[id + 1];
        if (end - offsets[id] >= SHORT_BYTES && long_count < MAX_LONG)
            long_ids[long_count++] = id;
        for (uint32_t at = offsets[id], step; at < end; at += step) {
            step = whole_character(texts + at, end - at);
            uint32_t group = step == 1 ? group_of[texts[at]] : step == 0;
            step += step == 0;
            begun[group] += at == offsets[id];
            (at == offsets[id] && group != 1 ? beginning : following)[group][word] |= bit;
        }
    }
}

uint32_t groups_within(const struct spelling *bytes) {
    uint32_t found = 0;
    for (uint32_t group = 0; group < GROUPS; group++) {
        uint32_t missing = 0;
        for (uint32_t i = 0; i < 4; i++)
            missing |= group_bytes[group].bits[i] & ~bytes->bits[i];
        found |= (uint32_t)!missing << group;
    }
    return found;
}

/* Bytes of a token's longest beginning that is spelled with a first letter and others. */
static uint32_t spelled_so(uint32_t id, uint32_t first, uint32_t others) {
    uint32_t at = offsets[id], end = offsets[id + 1];
    for (uint32_t groups = first; at < end; groups = others) {
        uint32_t step = whole_character(texts + at, end - at);
        if (step == 0 || !(groups >> (step == 1 ? group_of[texts[at]] : 0) & 1))
            break;
        at += step;
    }
    return at - offsets[id];
}

static uint32_t longest(uint32_t first, uint32_t others) {
    uint32_t most = long_count < MAX_LONG ? SHORT_BYTES - 1 : MAX_TOKEN_BYTES;
    for (uint32_t i = 0; i < long_count; i++) {
        uint32_t bytes = spelled_so(long_ids[i], first, others);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void find(struct spelled *made) {
    clear_bytes(made->ids, mask_words * sizeof *made->ids);
    for (uint32_t group = 0; group < GROUPS; group++)
        for (uint32_t i = 0; made->first >> group & 1 && i < mask_words; i++)
            made->ids[i] |= beginning[group][i];
    for (uint32_t group = 0; group < GROUPS; group++)
        for (uint32_t i = 0; !(made->others >> group & 1) && i < mask_words; i++)
            made->ids[i] &= ~following[group][i];
    made->longest = longest(made->first, made->others);
}

const struct spelled *tokens_spelled(uint32_t first, uint32_t others) {
    for (uint32_t i = 0; i < KEPT; i++)
        if (kept[i].first == first && kept[i].others == others)
            return &kept[i];
    struct spelled *made = &kept[next_kept++ % KEPT];
    made->first = first;
    made->others = others;
    find(made);
    return made;
}
