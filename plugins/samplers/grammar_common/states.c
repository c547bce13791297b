/* States are made from the end of a grammar to its beginning: each knows what follows it. */
#include "states.h"

#include "sealhost_guest.h"

#define LOOK_BACK 12u /* states among which an equal one is looked for: the tails of UTF-8 sequences are shared; those with `letters` are not */
#define SET_PLACES (4u * MAX_SETS)

struct state states[MAX_STATES];
struct byte_set sets[MAX_SETS];
uint16_t letters_left[MAX_STATES];
uint32_t letters_most;
struct count counts[MAX_COUNTS];
uint32_t state_count, set_count, class_count;
uint8_t class_of[256], class_byte[256];
int has_deep_calls;
const char *build_problem;
static uint32_t build_work, quick_steps, count_count;
static uint16_t set_places[SET_PLACES]; /* open addressing: the index of a set, 0: free */

void states_clear(void) {
    state_count = 2;
    set_count = 1; /* set 0 is empty: DEAD_STATE's */
    sets[0] = (struct byte_set){{0}};
    clear_bytes(set_places, sizeof set_places);
    states[RETURN_STATE] = (struct state){.kind = STATE_RETURN};
    states[DEAD_STATE] = (struct state){.kind = STATE_BYTE, .a = 0, .b = DEAD_STATE};
    build_problem = 0;
    build_work = quick_steps = count_count = 0;
}

int may_build(void) {
    if (++build_work > MAX_BUILD_WORK && !build_problem)
        build_problem = "repetitions";
    return !build_problem;
}

int may_step(void) {
    return quick_steps++ % QUICK ? !build_problem : may_build();
}

static uint32_t new_state(uint8_t kind, uint32_t a, uint32_t b) {
    if (!may_build())
        return DEAD_STATE;
    if (state_count == MAX_STATES) {
        build_problem = "states";
        return DEAD_STATE;
    }
    states[state_count] = (struct state){.kind = kind, .a = a, .b = b};
    return state_count++;
}

static int same_bits(const struct byte_set *a, const struct byte_set *b) {
    uint32_t differ = 0;
    for (uint32_t i = 0; i < 8; i++)
        differ |= a->bits[i] ^ b->bits[i];
    return !differ;
}

static uint32_t same_set(const struct byte_set *set) {
    uint32_t hash = 0;
    for (uint32_t i = 0; i < 8; i++)
        hash = (hash ^ set->bits[i]) * 0x9e3779b1u ^ hash >> 15;
    uint32_t at = hash >> 8;
    for (; set_places[at %= SET_PLACES]; at++)
        if (same_bits(&sets[set_places[at]], set))
            return set_places[at];
    if (set_count == MAX_SETS) {
        build_problem = "different sets of bytes";
        return 0;
    }
    sets[set_count] = *set;
    set_places[at] = (uint16_t)set_count;
    return set_count++;
}

uint32_t byte_state(const struct byte_set *set, uint32_t next) {
    if (!may_build())
        return DEAD_STATE;
    uint32_t a = same_set(set);
    for (uint32_t i = state_count, left = LOOK_BACK; left > 0 && i-- > 2; left--)
        if (states[i].kind == STATE_BYTE && states[i].a == a && states[i].b == next && !states[i].letters)
            return i;
    return new_state(STATE_BYTE, a, next);
}

uint32_t range_state(uint32_t low, uint32_t high, uint32_t next) {
    struct byte_set set = {{0}};
    set_add(&set, low, high);
    return byte_state(&set, next);
}

uint32_t split_state(uint32_t a, uint32_t b) {
    if (a == DEAD_STATE || a == b)
        return b;
    return b == DEAD_STATE ? a : new_state(STATE_SPLIT, a, b);
}

uint32_t call_state(uint32_t rule, uint32_t next) {
    return new_state(STATE_CALL, rule, next);
}

uint32_t count_state(uint32_t rule, struct count count, uint32_t next) {
    uint32_t index = 0;
    while (index < count_count && (counts[index].most != count.most || counts[index].least != count.least || counts[index].after != count.after))
        index++;
    if (index == MAX_COUNTS) {
        build_problem = "different lengths of patterns";
        return DEAD_STATE;
    }
    counts[index] = count;
    count_count = index == count_count ? index + 1 : count_count;
    uint32_t state = new_state(STATE_COUNT, rule, next);
    if (state != DEAD_STATE)
        states[state].letters = (uint8_t)index;
    return state;
}

uint32_t tick_state(uint32_t next) {
    return new_state(STATE_TICK, DEAD_STATE, next);
}

uint32_t open_state(void) {
    return new_state(STATE_SPLIT, DEAD_STATE, DEAD_STATE);
}

void close_state(uint32_t state, uint32_t a, uint32_t b) {
    if (state == DEAD_STATE) /* there was no room for it */
        return;
    states[state].a = a;
    states[state].b = b;
}

uint32_t text_state(const uint8_t *text, uint32_t length, uint32_t next) {
    while (length-- > 0)
        next = range_state(text[length], text[length], next);
    return next;
}

void states_drop(uint32_t count) {
    state_count = count;
}

static uint32_t need_of(const struct state *state) {
    uint32_t a, b;
    switch (state->kind) {
    case STATE_RETURN:
        return 0;
    case STATE_BYTE:
        return state->a ? states[state->b].need : NEVER;
    case STATE_SPLIT:
        a = states[state->a].need;
        b = states[state->b].need;
        return a < b ? a : b;
    case STATE_TICK:
        return states[state->b].need;
    case STATE_COUNT:
        a = states[state->a].need;
        b = states[state->b].need;
        if (a >= MAX_STACK || b == NEVER || letters_left[state->a] > counts[state->letters].most)
            return NEVER;
        return a + 1 > b ? a + 1 : b;
    default: /* a call: one more is open while what is called runs, unless nothing follows it (positions.c) */
        a = states[state->a].need;
        b = states[state->b].need;
        if (state->b == RETURN_STATE)
            return a;
        has_deep_calls |= a == MAX_STACK && b != NEVER;
        if (a >= MAX_STACK || b == NEVER)
            return NEVER;
        return a + 1 > b ? a + 1 : b;
    }
}

static uint32_t first_reader[MAX_STATES], next_reader[2 * MAX_STATES], todo[MAX_STATES]; /* of readers: 1 + 2 state + way */

static void add_reader(uint32_t followed, uint32_t reader) {
    next_reader[reader] = first_reader[followed];
    first_reader[followed] = reader + 1;
}

static void find_readers(void) {
    for (uint32_t i = 0; i < state_count; i++)
        first_reader[i] = 0;
    for (uint32_t i = 0; i < state_count; i++) {
        if (states[i].kind == STATE_SPLIT || states[i].kind == STATE_CALL || states[i].kind == STATE_COUNT)
            add_reader(states[i].a, 2 * i);
        if (states[i].kind != STATE_RETURN)
            add_reader(states[i].b, 2 * i + 1);
    }
}

/* From RETURN on backwards, in the order of letters. */
static void find_letters(void) {
    static uint32_t more[MAX_STATES]; /* states of one more letter */
    uint32_t count = 0, more_count = 0;
    for (uint32_t i = 0; i < state_count; i++)
        letters_left[i] = NEVER;
    letters_left[RETURN_STATE] = 0;
    todo[count++] = RETURN_STATE;
    for (uint32_t letters = 0; count > 0; letters++, count = more_count, more_count = 0) {
        while (count > 0)
            for (uint32_t reader = first_reader[todo[--count]]; reader; reader = next_reader[reader - 1]) {
                uint32_t index = (reader - 1) / 2;
                if (letters_left[index] != NEVER || states[index].kind == STATE_CALL || states[index].kind == STATE_COUNT)
                    continue;
                if (states[index].kind == STATE_BYTE && !states[index].a)
                    continue;
                int is_tick = states[index].kind == STATE_TICK;
                letters_left[index] = (uint16_t)(letters + (uint32_t)is_tick);
                if (is_tick)
                    more[more_count++] = index;
                else
                    todo[count++] = index;
            }
        for (uint32_t i = 0; i < more_count; i++)
            todo[i] = more[i];
        letters_most = letters;
    }
}

/* A state needs no less than what it is found from: so all of one need are final before those of the next are looked at,
 * and the work grows with the states alone, however rules call each other. */
static void find_needs(void) {
    has_deep_calls = 0;
    for (uint32_t i = 0; i < state_count; i++)
        states[i].need = NEVER;
    states[RETURN_STATE].need = 0;
    for (uint32_t need = 0, highest = 0; need <= highest; need++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < state_count; i++)
            if (states[i].need == need)
                todo[count++] = i;
        while (count > 0)
            for (uint32_t reader = first_reader[todo[--count]]; reader; reader = next_reader[reader - 1]) {
                struct state *state = &states[(reader - 1) / 2];
                uint32_t found = need_of(state);
                if (found >= state->need)
                    continue;
                state->need = (uint16_t)found;
                highest = found > highest ? found : highest;
                if (found == need)
                    todo[count++] = (reader - 1) / 2;
            }
    }
}

void find_classes(void) {
    class_count = 1;
    clear_bytes(class_of, sizeof class_of);
    for (uint32_t s = 1; s < set_count && class_count < 256; s++) {
        int16_t moved[256];
        uint32_t inside[256], outside[256], before = class_count;
        clear_bytes(inside, sizeof inside);
        clear_bytes(outside, sizeof outside);
        for (uint32_t byte = 0; byte < 256; byte++)
            (set_has(&sets[s], byte) ? inside : outside)[class_of[byte]]++;
        for (uint32_t c = 0; c < before; c++)
            moved[c] = inside[c] && outside[c] ? (int16_t)class_count++ : -1;
        for (uint32_t byte = 0; byte < 256; byte++)
            if (moved[class_of[byte]] >= 0 && set_has(&sets[s], byte))
                class_of[byte] = (uint8_t)moved[class_of[byte]];
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        class_byte[class_of[byte]] = (uint8_t)byte;
}

int states_finish(uint32_t start) {
    find_readers();
    if (count_count > 0)
        find_letters();
    find_needs();
    find_classes();
    return states[start].need != NEVER;
}
