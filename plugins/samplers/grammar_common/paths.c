#include "paths.h"

#include "positions.h"
#include "sealhost_guest.h"

#define BUCKETS 16384u
#define OUTDONE_AMONG 64u /* paths in one state: it is no matter of what is right */
#define NONE_FOUND 0xffffu

struct stack_node stacks[MAX_STACK_NODES];
uint32_t stack_count, path_work;
static uint32_t stack_buckets[BUCKETS];

/* found holds byte states, seen all of them */
struct path found[MAX_PATHS];
uint32_t found_count;
uint8_t found_accepts;
static struct path seen[2 * MAX_PATHS];
static uint32_t seen_count;
static uint16_t last_found[MAX_STATES], before_found[MAX_PATHS]; /* with the same state; of a set that was made before, when no such is there */
static uint32_t seen_marks[8 * MAX_PATHS], seen_round; /* open addressing: round << 12 | index */

uint32_t too_many(const char *what) {
    if (!position_problem)
        position_problem = what;
    return 0;
}

void stacks_clear(void) {
    clear_bytes(stack_buckets, sizeof stack_buckets);
    stack_count = 1;
    stacks[0] = (struct stack_node){.left = UNCOUNTED};
}

uint32_t push(uint32_t back, uint32_t below, uint32_t left, uint32_t count) {
    uint32_t *bucket = &stack_buckets[mixed(back ^ left * 0x27d4eb2fu, below) % BUCKETS];
    for (uint32_t i = *bucket; i; i = stacks[i].chain)
        if (stacks[i].back == back && stacks[i].below == below && stacks[i].left == left && stacks[i].count == count)
            return i;
    if (stack_count == MAX_STACK_NODES)
        return too_many("nested calls");
    stacks[stack_count] = (struct stack_node){back, below, left, count, stacks[below].depth + 1, *bucket};
    return *bucket = stack_count++;
}

uint32_t owed(uint32_t stack) {
    const struct stack_node *node = &stacks[stack];
    if (node->left == UNCOUNTED)
        return 0;
    uint32_t spare = counts[node->count].most - counts[node->count].least;
    return node->left > spare ? node->left - spare : 0;
}

/* After one more letter; there is one, for what needs more than are left is not followed. */
static uint32_t one_less(uint32_t stack) {
    const struct stack_node *node = &stacks[stack];
    return node->left == UNCOUNTED ? stack : push(node->back, node->below, node->left - 1, node->count);
}

void see(uint32_t state, uint32_t stack) {
    if (states[state].need + stacks[stack].depth > MAX_STACK || position_problem)
        return; /* clause 2.4: what is kept can be completed */
    if (stacks[stack].left < letters_left[state])
        return;
    uint32_t size = sizeof seen_marks / sizeof *seen_marks, at = mixed(state, stack) % size;
    for (; seen_marks[at] >> 12 == seen_round; at = (at + 1) % size) {
        struct path other = seen[seen_marks[at] & 4095];
        if (other.state == state && other.stack == stack)
            return;
    }
    if (seen_count == 2 * MAX_PATHS || ++path_work > MAX_STEP_WORK) {
        too_many(path_work > MAX_STEP_WORK ? "work in one step" : "ways to read one text");
        return;
    }
    seen_marks[at] = seen_round << 12 | seen_count;
    seen[seen_count++] = (struct path){state, stack};
}

void begin_set(void) {
    found_count = seen_count = found_accepts = 0;
    if (++seen_round == 1u << 20) {
        clear_bytes(seen_marks, sizeof seen_marks);
        seen_round = 1;
    }
}

/* What a path can read, another can, too, that differs only in having more letters left, if neither has to read any yet:
 * so of a pattern that takes a text in many ways, one for each call is kept. */
static int outdoes(uint32_t a, uint32_t b) {
    const struct stack_node *more = &stacks[a], *less = &stacks[b];
    return more->back == less->back && more->below == less->below && more->count == less->count && more->left >= less->left &&
           more->left != UNCOUNTED && !owed(a) && !owed(b);
}

static void add_found(struct path path) {
    uint32_t last = last_found[path.state];
    for (uint32_t i = last, looked = 0; i < found_count && found[i].state == path.state && looked < OUTDONE_AMONG; looked++) {
        if (outdoes(found[i].stack, path.stack))
            return;
        if (outdoes(path.stack, found[i].stack)) {
            found[i].stack = path.stack;
            return;
        }
        i = before_found[i];
    }
    if (found_count == MAX_PATHS) {
        too_many("ways to read one text");
        return;
    }
    before_found[found_count] = last < found_count ? (uint16_t)last : NONE_FOUND;
    last_found[path.state] = (uint16_t)found_count;
    found[found_count++] = path;
}

static int before(struct path a, struct path b) {
    return a.state != b.state ? a.state < b.state : a.stack < b.stack;
}

/* Small sets are sorted, so that one set is one position in whatever order it was found. */
static void sort_found(void) {
    if (found_count > 32)
        return;
    for (uint32_t i = 1; i < found_count; i++) {
        struct path path = found[i];
        uint32_t j = i;
        for (; j > 0 && before(path, found[j - 1]); j--)
            found[j] = found[j - 1];
        found[j] = path;
    }
}

void follow(void) {
    for (uint32_t i = 0; i < seen_count && !position_problem; i++) {
        struct path at = seen[i];
        const struct state *state = &states[at.state];
        switch (state->kind) {
        case STATE_SPLIT:
            see(state->a, at.stack);
            see(state->b, at.stack);
            break;
        case STATE_CALL: /* a call at the end of a rule opens nothing: what returns from it returns from the rule */
            see(state->a, state->b == RETURN_STATE ? at.stack : push(state->b, at.stack, UNCOUNTED, 0));
            break;
        case STATE_COUNT:
            see(state->a, push(state->b, at.stack, counts[state->letters].most, state->letters));
            break;
        case STATE_TICK:
            see(state->b, one_less(at.stack));
            break;
        case STATE_RETURN:
            if (owed(at.stack))
                break;
            if (at.stack)
                see(stacks[at.stack].back, stacks[at.stack].below);
            else
                found_accepts = 1;
            break;
        default:
            add_found(at);
        }
    }
    sort_found();
}
