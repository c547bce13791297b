/* What several automata make of one text: a place is a set of their states (unions.c) and how many letters were read. */
#include "product.h"

#include "characters.h"
#include "sealhost_guest.h"
#include "states.h"
#include "unions.h"

#define BUCKETS 4096u

struct place {
    uint32_t set, letters; /* complete ones; those beyond `least` do not count */
    uint32_t chain, head;  /* the state that stands for it */
};

uint8_t has_answer[1u << MAX_TOGETHER];
uint32_t answers[1u << MAX_TOGETHER];

static struct place places[MAX_PLACES]; /* place 0 is none */
static uint32_t buckets[BUCKETS], place_count, fewest, takers_needed;
static int has_ticks;

void together_begin(uint32_t needed, uint32_t least, int ticks) {
    takers_needed = (1u << needed) - 1;
    fewest = least;
    has_ticks = ticks;
    unions_begin(takers_needed);
}

static uint32_t place_of(uint32_t set, uint32_t letters) {
    uint32_t *bucket = &buckets[(set * 0x9e3779b1u ^ letters * 0x85ebca6bu) >> 20];
    for (uint32_t i = *bucket; i && may_step(); i = places[i].chain)
        if (places[i].set == set && places[i].letters == letters)
            return i;
    if (place_count == MAX_PLACES) {
        build_problem = "ways to read one text";
        return 0;
    }
    places[place_count] = (struct place){.set = set, .letters = letters, .chain = *bucket, .head = DEAD_STATE};
    return *bucket = place_count++;
}

/* Where a way leads from a place. */
static uint32_t place_after(const struct place *place, const struct way *way) {
    uint32_t letters = place->letters + unions[way->to].is_whole;
    return place_of(way->to, letters > fewest ? fewest : letters);
}

static int can_end(const struct place *place) {
    const struct set *set = &unions[place->set];
    return set->is_whole && place->letters >= fewest && (set->takers & takers_needed) == takers_needed;
}

int together_meet(void) {
    uint32_t first = unions_meet();
    clear_bytes(buckets, sizeof buckets);
    clear_bytes(has_answer, sizeof has_answer);
    for (uint32_t i = 0; i <= together_all(); i++)
        answers[i] = DEAD_STATE;
    place_count = 1;
    if (first)
        place_of(first, 0);
    for (uint32_t i = 1; i < place_count && may_build(); i++) {
        const struct set *set = &unions[places[i].set];
        for (uint32_t way = 0; way < set->way_count; way++)
            place_after(&places[i], &ways[set->first_way + way]);
        if (can_end(&places[i]))
            has_answer[set->takers] = 1;
    }
    return !build_problem;
}

static uint32_t place_states(uint32_t index) {
    const struct place *place = &places[index];
    const struct set *set = &unions[place->set];
    uint32_t all = can_end(place) ? answers[set->takers] : DEAD_STATE;
    for (uint32_t i = 0; i < set->way_count && may_build(); i++) {
        const struct way *way = &ways[set->first_way + i];
        uint32_t to = place_after(place, way), next = places[to].head;
        if (has_ticks && unions[way->to].is_whole)
            next = tick_state(next);
        int is_loop = to == index && is_plain_loop(place->set);
        if (is_loop) { /* a way of its own, so that no other place shares the mark */
            uint32_t again = open_state();
            close_state(again, next, DEAD_STATE);
            next = again;
        }
        uint32_t letter = byte_state(&way->bytes, next);
        if (is_loop)
            mark_plain(letter, LETTER_OF_LOOP, 0);
        all = split_state(letter, all);
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
