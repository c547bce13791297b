#include "special.h"

#include "arena.h"
#include "sealhost.h"

/* Children of a node are a linked list: chains are long and branches few. */
struct node {
    struct node *child;
    struct node *sibling;
    uint32_t id; /* + 1; 0: no token ends here */
    uint8_t byte;
};

static BESIDE_CONSTANTS struct node *roots[256];

static struct node *child_of(const struct node *parent, uint8_t byte) {
    struct node *child = parent->child;
    while (child && child->byte != byte)
        child = child->sibling;
    return child;
}

/* The node for one more byte below `parent` (0: at the top); 0 when the arena is full. */
static struct node *grow(struct node *parent, uint8_t byte) {
    struct node *found = parent ? child_of(parent, byte) : roots[byte];
    if (found)
        return found;
    struct node *made = arena_keep(1, sizeof *made);
    if (!made)
        return 0;
    *made = (struct node){0, parent ? parent->child : 0, 0, byte};
    if (parent)
        parent->child = made;
    else
        roots[byte] = made;
    return made;
}

int special_add(const struct tokens *tokens, uint32_t id) {
    struct node *node = 0;
    for (uint32_t i = tokens->offsets[id]; i < tokens->offsets[id + 1]; i++) {
        node = grow(node, tokens->bytes[i]);
        if (!node)
            return 0;
    }
    if (node && !node->id)
        node->id = id + 1;
    return 1;
}

/* The longest match that starts exactly at `at`; its end is 0 when there is none. */
static struct special_match match_at(const struct tokens *tokens, const uint8_t *at, const uint8_t *end, int control) {
    struct special_match best = {at, 0, NO_ID};
    const struct node *node = roots[*at];
    for (const uint8_t *next = at + 1; node; next++) {
        if (node->id && (control || tokens->types[node->id - 1] == SEALHOST_TYPE_USER_DEFINED)) {
            best.end = next;
            best.id = node->id - 1;
        }
        node = next < end ? child_of(node, *next) : 0;
    }
    return best;
}

struct special_match special_find(const struct tokens *tokens, const uint8_t *at, const uint8_t *end, int control) {
    for (; at < end; at++) {
        if (!roots[*at])
            continue;
        struct special_match match = match_at(tokens, at, end, control);
        if (match.end)
            return match;
    }
    return (struct special_match){end, end, NO_ID};
}
