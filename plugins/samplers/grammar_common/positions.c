#include "positions.h"

#include "paths.h"
#include "sealhost_guest.h"

#define BUCKETS 16384u
#define TAKEN_LATELY 256u

struct position positions[MAX_POSITIONS];
uint32_t shapes[MAX_POSITIONS];
uint32_t transitions[TABLE_WORDS];
uint32_t position_limit, position_round;
const char *position_problem;

static uint32_t position_chain[MAX_POSITIONS], position_buckets[BUCKETS];
static uint32_t shape_chain[MAX_POSITIONS], shape_buckets[BUCKETS];
static struct path paths[POSITION_PATHS];
static uint32_t position_count, path_count, aside_work;

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
    uint32_t hash = found_accepts;
    for (uint32_t i = 0; i < found_count; i++)
        hash = mixed(hash ^ found[i].state, found[i].stack);
    uint32_t *bucket = &position_buckets[hash % BUCKETS];
    for (uint32_t i = *bucket; i; i = position_chain[i])
        if (positions[i].count == found_count && positions[i].accepts == found_accepts &&
            equal_bytes((const uint8_t *)&paths[positions[i].first], (const uint8_t *)found, found_count * sizeof *found))
            return i;
    if (position_count == position_limit || path_count + found_count > POSITION_PATHS) {
        too_many("positions");
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
    stacks_clear();
    position_limit = TABLE_WORDS / class_count < MAX_POSITIONS ? TABLE_WORDS / class_count : MAX_POSITIONS;
    position_count = 2;
    path_count = 0;
    positions[NOWHERE] = (struct position){0};
    shapes[NOWHERE] = NOWHERE;
    for (uint32_t i = 0; i < class_count; i++)
        transitions[NOWHERE * class_count + i] = NOWHERE;
}

uint32_t positions_begin(uint32_t start) {
    position_problem = 0;
    path_work = aside_work = 0;
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
    path_work = aside_work = 0;
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
        see(kept[i].state, stack);
    }
    follow(); /* they are in byte states: what was found is found again */
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
    path_work += count;
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
    uint32_t before = path_work;
    if (position_problem || !may_look_aside())
        return NOWHERE;
    path_work = 0;
    uint32_t next = find_next(position, class);
    aside_work += 1 + path_work;
    path_work = before;
    if (position_problem) {
        position_problem = 0;
        aside_work = MAX_ASIDE_WORK;
        return NOWHERE;
    }
    return next;
}
