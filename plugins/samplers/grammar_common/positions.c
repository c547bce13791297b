#include "positions.h"

#include "sealhost_guest.h"

#define BUCKETS 16384u
#define TAKEN_LATELY 256u
#define OUTDONE_AMONG 64u /* paths in one state: it is no matter of what is right */

struct path {
    uint32_t state, stack;
};

#define NONE_FOUND 0xffffu
#define UNCOUNTED 0xffffffffu

struct stack_node { /* node 0 is the empty stack */
    uint32_t back, below; /* the state to return to; the rest */
    uint32_t left, count; /* letters that what was called may still read, of which count (states.h); UNCOUNTED: any number */
    uint32_t depth, chain;
};

struct position positions[MAX_POSITIONS];
uint32_t shapes[MAX_POSITIONS];
uint32_t transitions[TABLE_WORDS];
uint32_t position_limit, position_round;
const char *position_problem;

static uint32_t position_chain[MAX_POSITIONS], position_buckets[BUCKETS];
static uint32_t shape_chain[MAX_POSITIONS], shape_buckets[BUCKETS];
static struct path paths[POSITION_PATHS];
static struct stack_node stacks[MAX_STACK_NODES];
static uint32_t stack_buckets[BUCKETS];
static uint32_t position_count, path_count, stack_count, work, aside_work;

/* the set that is being made: found holds byte states, seen all of them */
static struct path found[MAX_PATHS], seen[2 * MAX_PATHS];
static uint32_t found_count, seen_count;
static uint8_t found_accepts;
static uint16_t last_found[MAX_STATES], before_found[MAX_PATHS]; /* with the same state; of a set that was made before, when no such is there */
static uint32_t seen_marks[8 * MAX_PATHS], seen_round; /* open addressing: round << 12 | index */

static uint32_t mixed(uint32_t a, uint32_t b) {
    uint32_t hash = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    hash ^= hash >> 15;
    hash *= 0x2c1b3c6du;
    return hash ^ hash >> 13;
}

static uint32_t too_much(const char *what) {
    if (!position_problem)
        position_problem = what;
    return 0;
}

static uint32_t push(uint32_t back, uint32_t below, uint32_t left, uint32_t count) {
    uint32_t *bucket = &stack_buckets[mixed(back ^ left * 0x27d4eb2fu, below) % BUCKETS];
    for (uint32_t i = *bucket; i; i = stacks[i].chain)
        if (stacks[i].back == back && stacks[i].below == below && stacks[i].left == left && stacks[i].count == count)
            return i;
    if (stack_count == MAX_STACK_NODES)
        return too_much("nested calls");
    stacks[stack_count] = (struct stack_node){back, below, left, count, stacks[below].depth + 1, *bucket};
    return *bucket = stack_count++;
}

/* Letters that what was called has to read yet. */
static uint32_t owed(uint32_t stack) {
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

/* Adds a path to those seen, unless it was, or nothing can complete it. */
static void see(uint32_t state, uint32_t stack) {
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
    if (seen_count == 2 * MAX_PATHS || ++work > MAX_STEP_WORK) {
        too_much(work > MAX_STEP_WORK ? "work in one step" : "ways to read one text");
        return;
    }
    seen_marks[at] = seen_round << 12 | seen_count;
    seen[seen_count++] = (struct path){state, stack};
}

static void begin_set(void) {
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
        too_much("ways to read one text");
        return;
    }
    before_found[found_count] = last < found_count ? (uint16_t)last : NONE_FOUND;
    last_found[path.state] = (uint16_t)found_count;
    found[found_count++] = path;
}

/* Follows all that reads no byte. */
static void follow(void) {
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

/* Letters of plain tokens that may all follow a path (trie.h). */
static uint32_t room_of(struct path path) {
    const struct state *state = &states[path.state], *back = &states[stacks[path.stack].back];
    if (state->letters == LETTER_OF_LOOP) { /* what ends the text after them may need letters of its own */
        uint32_t left = stacks[path.stack].left;
        if (left == UNCOUNTED)
            return PLAIN_LETTERS;
        left += counts[stacks[path.stack].count].after;
        return left - letters_left[path.state] + 1 > PLAIN_LETTERS ? PLAIN_LETTERS : left - letters_left[path.state] + 1;
    }
    if (state->letters != LETTER || path.stack == 0)
        return 0;
    return back->kind == STATE_BYTE ? 1 : back->letters + 1u; /* this letter, and those after it */
}

static int share_bytes(const struct byte_set *set, const struct byte_set *other) {
    uint32_t shared = 0;
    for (uint32_t i = 0; i < 8; i++)
        shared |= set->bits[i] & other->bits[i];
    return shared != 0;
}

int reads_plain(const struct byte_set *set) {
    static const struct byte_set plain = {{0, ~(1u << 2), ~(1u << 28), ~(1u << 31), ~0u, ~0u, ~0u, ~0u}}; /* no `"`, backslash, DEL */
    return share_bytes(set, &plain);
}

/* Longer plain tokens may follow none of the paths: so with less than PLAIN_LETTERS all paths are in one string. */
static uint32_t room_of_found(void) {
    uint32_t room = 0, stack = 0;
    for (uint32_t i = 0; i < found_count; i++)
        if (room_of(found[i]) > room) {
            room = room_of(found[i]);
            stack = found[i].stack;
        }
    for (uint32_t i = 0; i < found_count && room && room < PLAIN_LETTERS; i++) {
        const struct state *state = &states[found[i].state];
        if (!(state->letters && found[i].stack == stack) && reads_plain(&sets[state->a]))
            room = 0;
    }
    return room;
}

/* Of the one counted call that is open: what may follow is the same for any number, as long as no more than it are read,
 * nor as many as are owed. */
static uint32_t spare_of_found(void) {
    uint32_t stack = 0;
    for (uint32_t i = 0; i < found_count; i++) {
        if (stacks[found[i].stack].left == UNCOUNTED)
            continue;
        if (stack && found[i].stack != stack)
            return 0;
        stack = found[i].stack;
    }
    if (stack == 0 || stacks[stack].left < letters_most)
        return 0;
    uint32_t spare = stacks[stack].left - letters_most;
    return owed(stack) && owed(stack) <= spare ? owed(stack) - 1 : spare;
}

static int same_shape(uint32_t a, uint32_t b) {
    const struct path *one = &paths[positions[a].first], *other = &paths[positions[b].first];
    if (positions[a].count != positions[b].count || positions[a].accepts != positions[b].accepts)
        return 0;
    for (uint32_t i = 0; i < positions[a].count; i++) {
        const struct stack_node *left = &stacks[one[i].stack], *right = &stacks[other[i].stack];
        if (one[i].state != other[i].state)
            return 0;
        if (left != right && (left->left == UNCOUNTED || right->left == UNCOUNTED || left->back != right->back || left->below != right->below ||
                              left->count != right->count || !owed(one[i].stack) != !owed(other[i].stack)))
            return 0;
    }
    return 1;
}

static uint32_t shape_of(uint32_t position) {
    const struct path *path = &paths[positions[position].first];
    uint32_t hash = 0;
    if (!positions[position].spare)
        return position;
    for (uint32_t i = 0; i < positions[position].count; i++)
        hash = mixed(hash ^ path[i].state, stacks[path[i].stack].back);
    uint32_t *bucket = &shape_buckets[hash % BUCKETS];
    for (uint32_t i = *bucket; i; i = shape_chain[i])
        if (same_shape(i, position))
            return i;
    shape_chain[position] = *bucket;
    return *bucket = position;
}

static uint32_t position_of_found(void) {
    if (position_problem || (found_count == 0 && !found_accepts))
        return NOWHERE;
    sort_found();
    uint32_t hash = found_accepts;
    for (uint32_t i = 0; i < found_count; i++)
        hash = mixed(hash ^ found[i].state, found[i].stack);
    uint32_t *bucket = &position_buckets[hash % BUCKETS];
    for (uint32_t i = *bucket; i; i = position_chain[i])
        if (positions[i].count == found_count && positions[i].accepts == found_accepts &&
            equal_bytes((const uint8_t *)&paths[positions[i].first], (const uint8_t *)found, found_count * sizeof *found))
            return i;
    if (position_count == position_limit || path_count + found_count > POSITION_PATHS) {
        too_much("positions");
        return NOWHERE;
    }
    struct position *made = &positions[position_count];
    *made = (struct position){.first = path_count, .count = found_count, .accepts = found_accepts};
    for (uint32_t i = 0; i < found_count; i++)
        paths[path_count++] = found[i];
    made->room = (uint8_t)room_of_found();
    made->spare = spare_of_found();
    shapes[position_count] = shape_of(position_count);
    clear_bytes(&transitions[position_count * class_count], class_count * sizeof *transitions);
    position_chain[position_count] = *bucket;
    return *bucket = position_count++;
}

static void forget(void) {
    position_round++;
    clear_bytes(position_buckets, sizeof position_buckets);
    clear_bytes(shape_buckets, sizeof shape_buckets);
    clear_bytes(stack_buckets, sizeof stack_buckets);
    position_limit = TABLE_WORDS / class_count < MAX_POSITIONS ? TABLE_WORDS / class_count : MAX_POSITIONS;
    position_count = 2;
    path_count = 0;
    stack_count = 1;
    stacks[0] = (struct stack_node){.left = UNCOUNTED};
    positions[NOWHERE] = (struct position){0};
    shapes[NOWHERE] = NOWHERE;
    for (uint32_t i = 0; i < class_count; i++)
        transitions[NOWHERE * class_count + i] = NOWHERE;
}

uint32_t positions_begin(uint32_t start) {
    position_problem = 0;
    work = aside_work = 0;
    forget();
    begin_set();
    see(start, 0);
    follow();
    return position_of_found();
}

static struct path kept[MAX_PATHS];
static struct {
    uint32_t back, left, count;
} kept_calls[MAX_PATHS][MAX_STACK];

uint32_t positions_renew(uint32_t position) {
    work = aside_work = 0;
    if (position == NOWHERE || (position_count < position_limit / 2 && path_count < POSITION_PATHS / 2 &&
                                stack_count < MAX_STACK_NODES / 2))
        return position;
    uint32_t count = positions[position].count;
    for (uint32_t i = 0; i < count; i++) {
        kept[i] = paths[positions[position].first + i];
        for (uint32_t at = kept[i].stack, level = 0; at; at = stacks[at].below, level++) {
            kept_calls[i][level].back = stacks[at].back;
            kept_calls[i][level].left = stacks[at].left;
            kept_calls[i][level].count = stacks[at].count;
        }
        kept[i].stack = stacks[kept[i].stack].depth;
    }
    uint8_t accepts = positions[position].accepts;
    forget();
    begin_set();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t stack = 0;
        for (uint32_t level = kept[i].stack; level-- > 0;)
            stack = push(kept_calls[i][level].back, stack, kept_calls[i][level].left, kept_calls[i][level].count);
        found[found_count++] = (struct path){kept[i].state, stack};
    }
    found_accepts = accepts;
    return position_of_found();
}

/* Where the paths of a position that a set of its numbers tells went lately: classes that the same paths read lead alike. */
static struct {
    uint32_t position, taken, round, next;
} taken_lately[TAKEN_LATELY];

static uint32_t next_of(uint32_t position, uint32_t byte, uint32_t taken) {
    uint32_t end = positions[position].first + positions[position].count;
    begin_set();
    for (uint32_t i = positions[position].first, n = 0; i < end; i++, n++)
        if (n < 32 ? taken >> n & 1 : (uint32_t)set_has(&sets[states[paths[i].state].a], byte))
            see(states[paths[i].state].b, paths[i].stack);
    follow();
    return position_of_found();
}

uint32_t find_next(uint32_t position, uint32_t class) {
    uint32_t byte = class_byte[class], count = positions[position].count, taken = 0;
    const struct path *path = &paths[positions[position].first];
    for (uint32_t i = 0; i < count && i < 32; i++)
        taken |= (uint32_t)set_has(&sets[states[path[i].state].a], byte) << i;
    work += count;
    uint32_t place = (position * 0x9e3779b1u ^ taken * 0x85ebca6bu) >> 8 & (TAKEN_LATELY - 1), next = NOWHERE;
    if (count > 32)
        next = next_of(position, byte, taken);
    else if (taken && taken_lately[place].position == position && taken_lately[place].taken == taken &&
             taken_lately[place].round == position_round)
        next = taken_lately[place].next;
    else if (taken) {
        next = next_of(position, byte, taken);
        taken_lately[place].position = position_problem ? 0 : position;
        taken_lately[place].taken = taken;
        taken_lately[place].round = position_round;
        taken_lately[place].next = next;
    }
    if (!position_problem)
        transitions[position * class_count + class] = next;
    return next;
}

struct byte_set bytes_read(uint32_t position) {
    struct byte_set all = {{0}};
    const struct path *path = &paths[positions[position].first];
    for (uint32_t i = 0; i < positions[position].count; i++)
        for (uint32_t j = 0; j < 8; j++)
            all.bits[j] |= sets[states[path[i].state].a].bits[j];
    return all;
}

int leads_as_letters(uint32_t position, uint8_t byte) {
    static const struct byte_set beyond = {{0, 0, 0, 0, ~0u, ~0u, ~0u, ~0u}};
    const struct path *path = &paths[positions[position].first];
    uint32_t letters = 0;
    for (uint32_t i = 0; i < positions[position].count; i++) {
        const struct state *state = &states[path[i].state];
        letters += state->letters == LETTER_OF_LOOP && stacks[path[i].stack].left != UNCOUNTED;
        if ((state->letters != LETTER_OF_LOOP && set_has(&sets[state->a], byte)) ||
            (state->letters != LETTER_BEGIN && share_bytes(&sets[state->a], &beyond)))
            return 0;
    }
    return letters > 0;
}

/* Of all that is made, a quarter is left to what has to be found. */
int may_look_aside(void) {
    return aside_work < MAX_ASIDE_WORK && position_count < position_limit / 4 * 3 && path_count < POSITION_PATHS / 4 * 3 &&
           stack_count < MAX_STACK_NODES / 4 * 3;
}

uint32_t aside_spent(void) {
    return aside_work;
}

uint32_t find_aside(uint32_t position, uint32_t class) {
    uint32_t before = work;
    if (position_problem || !may_look_aside())
        return NOWHERE;
    work = 0;
    uint32_t next = find_next(position, class);
    aside_work += 1 + work;
    work = before;
    if (position_problem) {
        position_problem = 0;
        aside_work = MAX_ASIDE_WORK;
        return NOWHERE;
    }
    return next;
}
