#include "walk.h"

#include "loops.h"
#include "positions.h"
#include "sweep.h"

uint32_t walked_depth, walked_nodes;

static inline void allow_all(uint32_t from, uint32_t to, uint32_t *mask) {
    for (; from < to; from++)
        mask[ordered[from] / 32] |= 1u << (ordered[from] % 32);
}

static inline void allow_some(uint32_t from, uint32_t to, uint32_t least, uint32_t most, uint32_t *mask) {
    for (; from < to; from++)
        if (ordered_bytes[from] - least <= most - least) /* from least to most */
            mask[ordered[from] / 32] |= 1u << (ordered[from] % 32);
}

int walk(struct trie trie, uint32_t position, uint32_t shortest, const struct mask_source *from, uint32_t *mask) {
    uint32_t rows[MAX_TOKEN_BYTES + 1], deepest = 0, count = 0, width = class_count, round = position_round + 1; /* where the transitions of a position begin */
    struct swept_path path = {0};
    uint32_t sweeps = trie.first == all_tokens.first && shortest < SHORT_BYTES ? sweep(position, from, mask) : 0;
    rows[0] = usual(position, MAX_TOKEN_BYTES) * width;
    for (const struct node *node = &nodes[trie.first], *end = &nodes[trie.end]; node < end; count++) {
        if (node->longest <= shortest) {
            node = &nodes[node->end];
            continue;
        }
        uint32_t swept = sweeps ? swept_bytes(&path, node) : 0;
        if (swept) {
            deepest = swept > deepest ? swept : deepest;
            if (!node->ends_torn) {
                node = &nodes[node->end];
                continue;
            }
        }
        uint32_t depth = node->depth, class = class_of[node->byte], next = transitions[rows[depth] + class];
        if (!next)
            next = find_next(rows[depth] / width, class);
        if (next == NOWHERE) {
            node = &nodes[node->end];
            continue;
        }
        depth++;
        if (swept) {
            allow_all(node->first, node[1].first, mask);
            node = &nodes[node->end];
            continue;
        }
        next = usual(next, node->longest - depth);
        /* of few tokens that are long, none is worth looking round for */
        uint32_t more = node->can_loop && node->spelling && (shortest < SHORT_BYTES || loops[next].found == round) ? goes_round(next, node, round) : NOT_KNOWN;
        if (more == NOT_KNOWN) {
            rows[depth] = next * width;
            if (depth > deepest)
                deepest = depth;
            allow_all(node->first, node[1].first, mask);
            node++;
            continue;
        }
        const struct node *after = &nodes[node->end];
        if (depth + more >= node->longest && !shortest)
            allow_all(node->first, after->first, mask);
        else if (depth + more > shortest)
            allow_some(node->first, after->first, shortest + 1, depth + more, mask);
        depth = depth + more < node->longest ? depth + more : node->longest;
        deepest = depth > deepest ? depth : deepest;
        node = after;
    }
    walked_depth = deepest;
    walked_nodes = count + sweeps * SWEEP_NODES;
    return !position_problem;
}
