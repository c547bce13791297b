/* The subset construction over all automata at once. A place is the set of their states after a text, and how many letters
 * that has. One more automaton reads any text, so that a place knows where letters end and no text gets lost. */
#include "product.h"

#include "characters.h"
#include "sealhost_guest.h"
#include "states.h"

#define BUCKETS 4096u
#define QUICK 4u /* quick steps that count as one of building */

struct place {
    uint32_t first, count; /* byte states, in `members` */
    uint32_t letters;      /* complete ones; those beyond `least` do not count where there is no `most` */
    uint16_t takers;       /* automata that take the text so far */
    uint8_t is_whole;      /* the last letter is complete */
    uint32_t chain, head;  /* the state that stands for it */
};

uint8_t has_answer[1u << MAX_TOGETHER];
uint32_t answers[1u << MAX_TOGETHER];

static struct place places[MAX_PLACES]; /* place 0 is none */
static uint32_t members[PLACE_MEMBERS], buckets[BUCKETS];
static uint16_t ways[PLACE_WAYS]; /* by place and class of bytes */
static uint32_t place_count, member_count, classes;
static uint32_t starts[MAX_TOGETHER + 1], ends[MAX_TOGETHER + 1], automata; /* the last is that of any text */
static uint32_t fewest, longest;
static int needs_all;

/* the set that is being made */
static uint32_t seen[MAX_STATES], seen_count, round_of[MAX_STATES], round;
static uint32_t takers, quick_steps;
static int is_whole;

void together_begin(int all, uint32_t least, uint32_t most) {
    needs_all = all;
    fewest = least;
    longest = most;
    automata = 0;
}

uint32_t together_end(void) {
    return ends[automata] = open_state();
}

void together_add(uint32_t start) {
    starts[automata++] = start;
}

uint32_t together_all(void) {
    return (1u << automata) - 1;
}

/* ---- sets ---- */

static int may_go_on(void) {
    return ++quick_steps % QUICK || may_build();
}

static void begin_set(void) {
    round++;
    seen_count = takers = 0;
    is_whole = 0;
}

static void see(uint32_t state) {
    if (round_of[state] == round || state == DEAD_STATE)
        return;
    round_of[state] = round;
    seen[seen_count++] = state;
}

/* The automaton that a state is of, or the end of: those of one are numbered in a row. */
static uint32_t automaton_of(uint32_t state) {
    uint32_t n = automata;
    while (n > 0 && state < ends[n])
        n--;
    return n;
}

/* Whether each automaton goes on with the states that were seen. */
static int all_live(void) {
    uint32_t alive = takers;
    for (uint32_t i = 0; i < seen_count && alive != together_all(); i++)
        alive |= 1u << automaton_of(seen[i]);
    return (alive & together_all()) == together_all();
}

/* Follows splits and leaves the byte states, in order. */
static void follow(void) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < seen_count && may_go_on(); i++) {
        const struct state *state = &states[seen[i]];
        if (state->kind != STATE_SPLIT)
            continue;
        see(state->a);
        see(state->b);
        uint32_t n = automaton_of(seen[i]);
        if (seen[i] == ends[n]) {
            is_whole |= n == automata;
            takers |= n == automata ? 0 : 1u << n;
        }
    }
    for (uint32_t i = 0; i < seen_count; i++) {
        uint32_t state = seen[i], at = kept;
        if (states[state].kind != STATE_BYTE)
            continue;
        for (; at > 0 && seen[at - 1] > state && may_go_on(); at--)
            seen[at] = seen[at - 1];
        seen[at] = state;
        kept++;
    }
    seen_count = kept;
}

static int same_members(const struct place *place) {
    for (uint32_t i = 0; i < seen_count; i++)
        if (members[place->first + i] != seen[i])
            return 0;
    return 1;
}

static uint32_t place_of_seen(uint32_t letters) {
    uint32_t hash = letters * 31 + takers;
    if (!seen_count && !is_whole)
        return 0;
    for (uint32_t i = 0; i < seen_count; i++)
        hash = (hash ^ seen[i]) * 0x9e3779b1u ^ hash >> 15;
    uint32_t *bucket = &buckets[(hash >> 8) % BUCKETS];
    for (uint32_t i = *bucket; i && may_go_on(); i = places[i].chain) {
        const struct place *place = &places[i];
        if (place->count == seen_count && place->letters == letters && place->takers == takers && place->is_whole == is_whole && same_members(place))
            return i;
    }
    if (place_count == MAX_PLACES || (place_count + 1) * classes > PLACE_WAYS || member_count + seen_count > PLACE_MEMBERS) {
        build_problem = "ways to read one text";
        return 0;
    }
    places[place_count] = (struct place){.first = member_count, .count = seen_count, .letters = letters, .takers = (uint16_t)takers,
                                         .is_whole = (uint8_t)is_whole, .chain = *bucket, .head = DEAD_STATE};
    for (uint32_t i = 0; i < seen_count; i++)
        members[member_count++] = seen[i];
    return *bucket = place_count++;
}

static int can_end(const struct place *place) {
    return place->is_whole && place->letters >= fewest && (!needs_all || place->takers == together_all());
}

/* ---- all texts ---- */

static uint32_t step(const struct place *place, uint32_t class) {
    begin_set();
    if (place->is_whole && place->letters == longest)
        return 0;
    for (uint32_t i = 0; i < place->count && may_go_on(); i++)
        if (set_has(&sets[states[members[place->first + i]].a], class_byte[class]))
            see(states[members[place->first + i]].b);
    if (!seen_count || (needs_all && !all_live()))
        return 0;
    follow();
    uint32_t letters = place->letters + (uint32_t)is_whole;
    return place_of_seen(longest == ENDLESS && letters > fewest ? fewest : letters);
}

int together_meet(void) {
    static const struct characters every = {.count = 1, .ranges = {{0, LAST_CHARACTER}}};
    ends[automata] = open_state();
    uint32_t loop = open_state();
    starts[automata] = loop;
    close_state(loop, character_states(&every, 1, loop), ends[automata]);
    if (build_problem)
        return 0;
    find_classes();
    classes = class_count;
    clear_bytes(buckets, sizeof buckets);
    clear_bytes(has_answer, sizeof has_answer);
    for (uint32_t i = 0; i < 1u << automata; i++)
        answers[i] = DEAD_STATE;
    place_count = 1;
    member_count = 0;
    begin_set();
    for (uint32_t n = 0; n <= automata; n++)
        see(starts[n]);
    follow();
    place_of_seen(0);
    for (uint32_t i = 1; i < place_count && may_build(); i++) {
        for (uint32_t class = 0; class < classes; class++)
            ways[i * classes + class] = (uint16_t)step(&places[i], class);
        if (can_end(&places[i]))
            has_answer[places[i].takers] = 1;
    }
    return !build_problem;
}

/* ---- states ---- */

static uint32_t way(uint32_t place, uint32_t byte) {
    return ways[place * classes + class_of[byte]];
}

/* Whether all plain letters lead from a place to itself (states.h, LETTER_OF_LOOP). */
static int is_plain_loop(uint32_t place) {
    for (uint32_t byte = 0x20; byte < 0x80; byte++)
        if (byte != '"' && byte != '\\' && way(place, byte) != place)
            return 0;
    for (uint32_t lead = 0xc2; lead < 0xf5; lead++) {
        uint32_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3, at = way(place, lead);
        uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        for (; more > 0; more--, low = 0x80, high = 0xbf) {
            uint32_t next = way(at, low); /* where some of the bytes lead elsewhere, this is not known to be a loop */
            for (uint32_t byte = low; byte <= high; byte++)
                if (way(at, byte) != next)
                    return 0;
            at = next;
        }
        if (at != place)
            return 0;
    }
    return 1;
}

static uint32_t place_states(uint32_t place) {
    uint32_t all = can_end(&places[place]) ? answers[places[place].takers] : DEAD_STATE;
    int is_loop = is_plain_loop(place);
    for (uint32_t class = 0; class < classes && may_build(); class++) {
        uint32_t to = ways[place * classes + class], earlier = 0;
        while (earlier < class && ways[place * classes + earlier] != to)
            earlier++;
        if (!to || earlier < class)
            continue;
        struct byte_set set = {{0}};
        for (uint32_t byte = 0; byte < 256; byte++)
            if (way(place, byte) == to)
                set_add(&set, byte, byte);
        if (is_loop && to == place) { /* of its own, so that no other place shares the mark */
            uint32_t again = open_state(), letter = byte_state(&set, again);
            close_state(again, places[place].head, DEAD_STATE);
            mark_plain(letter, LETTER_OF_LOOP, 0);
            all = split_state(letter, all);
        } else
            all = split_state(byte_state(&set, places[to].head), all);
    }
    return all;
}

uint32_t together_states(void) {
    if (build_problem || place_count < 2)
        return DEAD_STATE;
    for (uint32_t i = 1; i < place_count; i++)
        places[i].head = open_state();
    for (uint32_t i = 1; i < place_count && may_build(); i++)
        close_state(places[i].head, place_states(i), DEAD_STATE);
    return places[1].head;
}

int takes_text(uint32_t start, uint32_t end, const uint8_t *text, uint32_t length) {
    automata = 0;
    ends[0] = DEAD_STATE; /* no automaton is told apart here */
    begin_set();
    see(start);
    follow();
    for (uint32_t i = 0; i < length && may_build(); i++) {
        uint32_t count = seen_count, now = 0;
        for (; now < count; now++)
            members[now] = seen[now];
        begin_set();
        for (now = 0; now < count; now++)
            if (set_has(&sets[states[members[now]].a], text[i]))
                see(states[members[now]].b);
        follow();
    }
    return round_of[end] == round;
}
