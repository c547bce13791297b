#include "trie.h"

#include <wasm_simd128.h>

#include "arena.h"

static uint32_t *children; /* of node n: from children[n] up to children[n + 1] */
static uint8_t *bytes;     /* the last one of each node's text */
static uint32_t *ids;      /* + 1; 0: no token ends here */

static uint32_t length_of(const struct tokens *tokens, uint32_t id) {
    return tokens->offsets[id + 1] - tokens->offsets[id];
}

/* Each text adds a node for each byte that it does not share with the one before it. */
static uint32_t count_nodes(const struct tokens *tokens, const struct branch *branches, uint32_t count) {
    uint32_t nodes = 1;
    for (uint32_t i = 0; i < count; i++)
        nodes += length_of(tokens, branches[i].id) - branches[i].shared;
    return nodes;
}

/* Adds the nodes of texts of `depth` + 1 bytes, from node `next` on, and counts each as a child. Keeps the branches that
 * reach so far, with what each shares with the one before it now, and returns their number. */
static uint32_t add_level(const struct tokens *tokens, struct branch *branches, uint32_t count, uint32_t depth,
                          uint32_t *next) {
    uint32_t left = 0, shared = NO_NODE;
    for (uint32_t i = 0; i < count; i++) {
        struct branch branch = branches[i];
        uint32_t length = length_of(tokens, branch.id);
        shared = branch.shared < shared ? branch.shared : shared;
        if (length <= depth)
            continue;
        if (shared <= depth) {
            children[branch.node + 1]++;
            bytes[(*next)++] = tokens->bytes[tokens->offsets[branch.id] + depth];
        }
        if (length == depth + 1)
            ids[*next - 1] = branch.id + 1;
        branches[left++] = (struct branch){branch.id, shared, *next - 1};
        shared = NO_NODE;
    }
    return left;
}

int trie_build(const struct tokens *tokens, struct branch *branches, uint32_t count) {
    uint32_t nodes = count_nodes(tokens, branches, count), next = 1;
    children = arena_keep((uint64_t)nodes + 1, sizeof *children);
    bytes = arena_keep((uint64_t)nodes + sizeof(v128_t), 1); /* what trie_child may see behind them */
    ids = arena_keep(nodes, sizeof *ids);
    if (!children || !bytes || !ids)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        branches[i].node = TRIE_ROOT;
    for (uint32_t depth = 0; count; depth++)
        count = add_level(tokens, branches, count, depth, &next);
    children[0] = 1;
    for (uint32_t node = 0; node < nodes; node++)
        children[node + 1] += children[node];
    return 1;
}

/* Looks at sixteen children at a time; what it sees behind the last one does not count. */
uint32_t trie_child(uint32_t node, uint8_t byte) {
    v128_t wanted = wasm_i8x16_splat((int8_t)byte);
    for (uint32_t at = children[node], end = children[node + 1]; at < end; at += sizeof wanted) {
        uint32_t found = wasm_i8x16_bitmask(wasm_i8x16_eq(wasm_v128_load(bytes + at), wanted));
        if (found) {
            at += (uint32_t)__builtin_ctz(found);
            return at < end ? at : NO_NODE;
        }
    }
    return NO_NODE;
}

uint32_t trie_id(uint32_t node) {
    return ids[node] - 1; /* 0 becomes NO_ID */
}
