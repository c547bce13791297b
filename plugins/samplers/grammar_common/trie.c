#include "trie.h"

#include "sealhost_guest.h"
#include "spelled.h"

#define BUCKETS 16384u
#define TORN 255u
#define NOTHING 1u /* the spelling of nothing */

struct node nodes[MAX_NODES + 1];
uint32_t ordered[2 * MAX_IDS];
uint8_t ordered_bytes[2 * MAX_IDS];
struct spelling spellings[MAX_SPELLINGS]; /* 0 is none, NOTHING stays empty */
static uint16_t spelling_chain[MAX_SPELLINGS], spelling_buckets[BUCKETS];
static uint32_t node_count, ordered_count, spelling_count = NOTHING + 1;

struct trie all_tokens, other_tokens;
uint32_t mask_words;
uint32_t plain_tokens[PLAIN_LETTERS + 1][MASK_WORDS];
uint32_t short_tokens[SHORT_BYTES + 1][MASK_WORDS];

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

/* Merge sort, bottom up, between two lists; equal texts keep the order of their ids. Returns the one that is sorted. */
static uint32_t *sorted(uint32_t *from, uint32_t *to, uint32_t count) {
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

uint32_t whole_character(const uint8_t *text, uint32_t left) {
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
        step = whole_character(text + at, length - at);
        if (step == 0 || ++letters > PLAIN_LETTERS || text[at] < 0x20 || text[at] == 0x7f || text[at] == '"' || text[at] == '\\')
            return 0;
    }
    return letters;
}

/* ---- the path to the token that is added ---- */

struct open_node {
    uint32_t node;
    uint8_t missing;       /* bytes of its last character that follow; TORN: there is no such character */
    struct spelling below; /* of the subtree so far */
};

static struct open_node open[MAX_TOKEN_BYTES + 1]; /* by the number of bytes; 0 is the root, which is no node */

/* Bytes that a character still misses after one more, before which it missed `missing`. */
static uint8_t missing_after(uint8_t missing, uint8_t before, uint8_t byte) {
    if (missing == TORN)
        return TORN;
    if (missing == 0)
        return byte < 0x80 ? 0 : byte < 0xc2 ? TORN : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : byte < 0xf5 ? 3 : TORN;
    uint8_t low = before == 0xe0 ? 0xa0 : before == 0xf0 ? 0x90 : 0x80;
    uint8_t high = before == 0xed ? 0x9f : before == 0xf4 ? 0x8f : 0xbf;
    return byte < low || byte > high ? TORN : (uint8_t)(missing - 1);
}

static uint16_t same_spelling(const struct spelling *spelling) {
    uint32_t hash = 0;
    for (uint32_t i = 0; i < 4; i++)
        hash = (hash ^ spelling->bits[i]) * 0x9e3779b1u ^ hash >> 15;
    uint16_t *bucket = &spelling_buckets[(hash >> 8) % BUCKETS];
    for (uint32_t i = *bucket; i; i = spelling_chain[i])
        if (equal_bytes((const uint8_t *)&spellings[i], (const uint8_t *)spelling, sizeof *spelling))
            return (uint16_t)i;
    if (spelling_count == MAX_SPELLINGS)
        return 0;
    spellings[spelling_count] = *spelling;
    spelling_chain[spelling_count] = *bucket;
    return *bucket = (uint16_t)spelling_count++;
}

static void open_child(uint32_t depth, uint8_t byte) {
    struct open_node *child = &open[depth + 1];
    uint8_t before = depth > 0 ? nodes[open[depth].node].byte : 0;
    *child = (struct open_node){.node = node_count, .missing = missing_after(open[depth].missing, before, byte)};
    nodes[node_count++] = (struct node){.first = ordered_count, .byte = byte, .depth = (uint8_t)depth};
}

/* Tells the node before it what its subtree spells. */
static void close_child(uint32_t depth) {
    struct open_node *parent = &open[depth], *child = &open[depth + 1];
    struct node *node = &nodes[child->node];
    uint32_t after = child->node + 1 < node_count ? nodes[child->node + 1].first : ordered_count; /* its own ids */
    node->end = node_count;
    node->can_loop = child->missing == 0 && ordered_count > after;
    node->ends_torn = child->missing && after > node->first;
    if (child->missing != TORN)
        node->spelling = ordered_count > after ? same_spelling(&child->below) : NOTHING;
    for (uint32_t i = 0; i < 4; i++)
        parent->below.bits[i] |= child->below.bits[i];
    if (child->missing == TORN || (child->missing && after > node->first) || node->byte < 2)
        parent->below.bits[0] |= SPELLS_TORN;
    else if (node->byte < 0x80)
        parent->below.bits[node->byte / 32] |= 1u << node->byte % 32;
    else
        parent->below.bits[0] |= SPELLS_WHOLE;
    if (depth > 0 && nodes[parent->node].longest < node->longest)
        nodes[parent->node].longest = node->longest;
}

/* Adds sorted ids; `skip_plain` leaves the plain ones out. Returns 0 when there is no room. */
static int add(const uint32_t *ids, uint32_t count, int skip_plain) {
    uint32_t depth = 0;
    open[0] = (struct open_node){0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = ids[i], length = length_of(id), shared = 0;
        if (skip_plain && plain_tokens[PLAIN_LETTERS][id / 32] >> (id % 32) & 1)
            continue;
        const uint8_t *text = texts + offsets[id];
        while (shared < depth && shared < length && nodes[open[shared + 1].node].byte == text[shared])
            shared++;
        while (depth > shared)
            close_child(--depth);
        if (node_count + length - depth > MAX_NODES)
            return 0;
        for (; depth < length; depth++)
            open_child(depth, text[depth]);
        nodes[open[depth].node].longest = (uint8_t)length;
        ordered_bytes[ordered_count] = (uint8_t)length;
        ordered[ordered_count++] = id;
    }
    while (depth > 0)
        close_child(--depth);
    nodes[node_count].first = ordered_count;
    return 1;
}

const char *trie_build(const uint8_t *table_bytes, const struct sealhost_token_table *table) {
    if (table->count > MAX_IDS)
        return "tokens";
    /* the ids are sorted where it will stand what they are spelled with */
    _Static_assert(sizeof beginning >= MAX_IDS * sizeof(uint32_t), "a list of ids has room there");
    uint32_t *order = beginning[0];
    mask_words = (table->count + 31) / 32;
    texts = table_bytes + table->bytes;
    offsets = (const uint32_t *)(const void *)(table_bytes + table->offsets);
    const uint8_t *types = table_bytes + table->types;
    uint32_t count = 0;
    for (uint32_t id = 0; id < table->count; id++) {
        /* unknown and unused tokens spell a name that is no text; control tokens spell nothing */
        if (types[id] == SEALHOST_TYPE_CONTROL || types[id] == SEALHOST_TYPE_UNKNOWN || types[id] == SEALHOST_TYPE_UNUSED)
            continue;
        if (length_of(id) == 0 || length_of(id) > MAX_TOKEN_BYTES)
            continue;
        order[count++] = id;
        uint32_t letters = plain_letters(id);
        if (letters)
            plain_tokens[letters][id / 32] |= 1u << (id % 32);
        if (length_of(id) <= SHORT_BYTES)
            short_tokens[length_of(id)][id / 32] |= 1u << (id % 32);
    }
    for (uint32_t letters = 1; letters <= PLAIN_LETTERS; letters++)
        for (uint32_t word = 0; word < mask_words; word++)
            plain_tokens[letters][word] |= plain_tokens[letters - 1][word];
    for (uint32_t length = 1; length <= SHORT_BYTES; length++)
        for (uint32_t word = 0; word < mask_words; word++)
            short_tokens[length][word] |= short_tokens[length - 1][word];
    const uint32_t *ids = sorted(order, following[0], count);
    node_count = 0;
    all_tokens.first = 0;
    if (!add(ids, count, 0))
        return "bytes of tokens";
    uint32_t added = ordered_count;
    all_tokens.end = other_tokens.first = node_count;
    if (!add(ids, count, 1))
        return "bytes of tokens";
    other_tokens.end = node_count;
    spelled_build(texts, offsets, added);
    return 0;
}
