#include "trie.h"

#include "arena.h"
#include "tokens.h"

struct slot {
    uint32_t key;   /* parent << 8 | byte */
    uint32_t child; /* 0, the root, is nobody's child: a free slot */
};

static struct slot *slots;
static uint32_t mask;
static uint32_t *ids; /* + 1; 0: no token ends here */
static uint32_t used;

int trie_reserve(uint32_t nodes) {
    if (nodes >= 1u << 24) /* so that a key fits 32 bits */
        return 0;
    uint32_t size = power_of_two(nodes + nodes / 2 + 1);
    slots = arena_keep(size, sizeof *slots);
    ids = arena_keep((uint64_t)nodes + 1, sizeof *ids);
    mask = size - 1;
    used = 1;
    return slots && ids;
}

static struct slot *slot_of(uint32_t node, uint8_t byte) {
    uint32_t key = node << 8 | byte, mixed = key * 0x9E3779B1u;
    uint32_t at = (mixed ^ mixed >> 15) & mask;
    while (slots[at].child && slots[at].key != key)
        at = (at + 1) & mask;
    return &slots[at];
}

void trie_add(const uint8_t *text, uint32_t length, uint32_t id) {
    uint32_t node = TRIE_ROOT;
    for (uint32_t i = 0; i < length; i++) {
        struct slot *slot = slot_of(node, text[i]);
        if (!slot->child)
            *slot = (struct slot){node << 8 | text[i], used++};
        node = slot->child;
    }
    if (length && !ids[node])
        ids[node] = id + 1;
}

uint32_t trie_child(uint32_t node, uint8_t byte) {
    uint32_t child = slot_of(node, byte)->child;
    return child ? child : NO_NODE;
}

uint32_t trie_id(uint32_t node) {
    return ids[node] - 1; /* 0 becomes NO_ID */
}
