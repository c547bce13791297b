#include "trie.h"

#include "positions.h"
#include "sealhost_guest.h"

struct node {
    uint32_t end;   /* the node after the subtree */
    uint32_t token; /* an id that ends here, NO_TOKEN: none */
    uint8_t byte, depth;
};

static struct node nodes[MAX_NODES];
static uint32_t node_count;
static uint32_t next_alike[MAX_IDS]; /* another id with the same text */
static uint32_t order[2][MAX_IDS];

struct trie all_tokens, other_tokens;
uint32_t walked_depth;
uint32_t plain_tokens[PLAIN_LETTERS + 1][MASK_WORDS];

static const uint8_t *texts;
static const uint32_t *offsets;

static uint32_t length_of(uint32_t id) {
    return offsets[id + 1] - offsets[id];
}

static int compare(uint32_t a, uint32_t b) {
    const uint8_t *left = texts + offsets[a], *right = texts + offsets[b];
    uint32_t left_length = length_of(a), right_length = length_of(b);
    for (uint32_t i = 0; i < left_length && i < right_length; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return left_length < right_length ? -1 : left_length > right_length;
}

/* Merge sort, bottom up; equal texts keep the order of their ids. Returns the sorted list. */
static uint32_t *sorted(uint32_t count) {
    uint32_t *from = order[0], *to = order[1];
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = start + width < count ? start + width : count;
            uint32_t end = start + 2 * width < count ? start + 2 * width : count;
            for (uint32_t a = start, b = middle, at = start; at < end; at++)
                to[at] = a < middle && (b == end || compare(from[a], from[b]) <= 0) ? from[a++] : from[b++];
        }
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

/* Bytes of the UTF-8 character that begins here, 0: none does. */
static uint32_t character(const uint8_t *text, uint32_t left) {
    uint8_t lead = text[0];
    if (lead < 0x80)
        return 1;
    uint32_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || left < length)
        return 0;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (text[1] < low || text[1] > high)
        return 0;
    for (uint32_t i = 2; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* Letters of a plain token, 0: it is not plain. */
static uint32_t plain_letters(uint32_t id) {
    const uint8_t *text = texts + offsets[id];
    uint32_t letters = 0;
    for (uint32_t at = 0, length = length_of(id), step; at < length; at += step) {
        step = character(text + at, length - at);
        if (step == 0 || ++letters > PLAIN_LETTERS || text[at] < 0x20 || text[at] == 0x7f || text[at] == '"' || text[at] == '\\')
            return 0;
    }
    return letters;
}

/* Adds sorted ids; `skip_plain` leaves the plain ones out. Returns 0 when there is no room. */
static int add(const uint32_t *ids, uint32_t count, int skip_plain) {
    uint32_t open[MAX_TOKEN_BYTES + 1], depth = 0, last = NO_TOKEN;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = ids[i], length = length_of(id), shared = 0;
        if (skip_plain && plain_tokens[PLAIN_LETTERS][id / 32] >> (id % 32) & 1)
            continue;
        const uint8_t *text = texts + offsets[id];
        while (shared < depth && shared < length && nodes[open[shared]].byte == text[shared])
            shared++;
        if (last != NO_TOKEN && shared == length && length_of(last) == length) {
            next_alike[last] = id;
            last = id;
            continue;
        }
        while (depth > shared)
            nodes[open[--depth]].end = node_count;
        if (node_count + length - depth > MAX_NODES)
            return 0;
        for (; depth < length; depth++) {
            open[depth] = node_count;
            nodes[node_count++] = (struct node){.token = NO_TOKEN, .byte = text[depth], .depth = (uint8_t)depth};
        }
        nodes[node_count - 1].token = last = id;
    }
    while (depth > 0)
        nodes[open[--depth]].end = node_count;
    return 1;
}

const char *trie_build(const uint8_t *table_bytes, const struct sealhost_token_table *table) {
    if (table->count > MAX_IDS)
        return "tokens";
    texts = table_bytes + table->bytes;
    offsets = (const uint32_t *)(const void *)(table_bytes + table->offsets);
    const uint8_t *types = table_bytes + table->types;
    uint32_t count = 0;
    for (uint32_t id = 0; id < table->count; id++) {
        next_alike[id] = NO_TOKEN;
        /* unknown and unused tokens spell a name that is no text; control tokens spell nothing */
        if (types[id] == SEALHOST_TYPE_CONTROL || types[id] == SEALHOST_TYPE_UNKNOWN || types[id] == SEALHOST_TYPE_UNUSED)
            continue;
        if (length_of(id) == 0 || length_of(id) > MAX_TOKEN_BYTES)
            continue;
        order[0][count++] = id;
        uint32_t letters = plain_letters(id);
        if (letters)
            plain_tokens[letters][id / 32] |= 1u << (id % 32);
    }
    for (uint32_t letters = 1; letters <= PLAIN_LETTERS; letters++)
        for (uint32_t word = 0; word < MASK_WORDS; word++)
            plain_tokens[letters][word] |= plain_tokens[letters - 1][word];
    const uint32_t *ids = sorted(count);
    node_count = 0;
    all_tokens.first = 0;
    if (!add(ids, count, 0))
        return "bytes of tokens";
    all_tokens.end = other_tokens.first = node_count;
    if (!add(ids, count, 1))
        return "bytes of tokens";
    other_tokens.end = node_count;
    return 0;
}

static inline int walk(struct trie trie, uint32_t position, uint32_t *mask, int measures) {
    uint32_t reached[MAX_TOKEN_BYTES + 1], deepest = 0;
    reached[0] = position;
    for (uint32_t at = trie.first; at < trie.end;) {
        const struct node *node = &nodes[at];
        uint32_t next = next_position(reached[node->depth], node->byte);
        if (next == NOWHERE) {
            at = node->end;
            continue;
        }
        reached[node->depth + 1] = next;
        if (measures && node->depth >= deepest)
            deepest = node->depth + 1u;
        for (uint32_t id = node->token; id != NO_TOKEN; id = next_alike[id])
            mask[id / 32] |= 1u << (id % 32);
        at++;
    }
    walked_depth = deepest;
    return !position_problem;
}

int trie_walk(struct trie trie, uint32_t position, uint32_t *mask) {
    return positions[position].spare ? walk(trie, position, mask, 1) : walk(trie, position, mask, 0);
}
