/* Numbers are read place by place, 16 before the point and 16 after it. What matters of the digits so far is whether they are
 * still those of the lower or the upper bound, and their remainder; states are made from the last place to the first. */
#include "numbers.h"

#include "sealhost_guest.h"
#include "states.h"
#include "values.h"

#define POINT WHOLE_DIGITS /* places before the point */
#define PLACES (WHOLE_DIGITS + FRACTION_DIGITS)
#define MAX_REMAINDERS 1024u /* that are told apart at one place */

enum { LIKE_LOW = 1, LIKE_HIGH = 2 }; /* all digits so far are the bound's */

struct bound {
    struct decimal value;
    int is_there, is_exclusive;
};

struct digits { /* of a bound without its sign */
    uint8_t at[PLACES];
    uint32_t rest[PLACES + 1]; /* remainder of those before a place */
    uint8_t lives[PLACES + 1]; /* some number in steps begins with these */
};

struct level { /* states after so many places */
    uint32_t free[MAX_REMAINDERS], like[4]; /* by remainder; by LIKE_ bits, with the bound's own remainder */
};

static struct bound low, high; /* of the values, then of their sizes */
static struct step step;
static struct digits of_low, of_high;
static struct level levels[2];
static int32_t settled; /* places after which only 0 goes on: those of the step have come out even */
static uint32_t moduli[PLACES + 1];

/* ---- what the schemas say ---- */

static int tighten(const struct json *json, uint32_t node, enum keyword which, int is_exclusive, int sign, struct bound *bound) {
    struct decimal value;
    int is_itself;
    if (!read_bound(json, node, sign, &value, &is_itself))
        return refuse(keyword_name(which), "a number of at most 64 characters");
    int order = bound->is_there ? sign * compare_decimals(&value, &bound->value) : 1, excludes = is_exclusive && is_itself;
    if (order > 0 || (order == 0 && excludes))
        *bound = (struct bound){value, 1, excludes};
    return 1;
}

/* The tightest of all: sign 1 from below, -1 from above. In draft 4, `exclusive` is `true` beside the bound that it is about. */
static int find_bound(const struct limits *limits, enum keyword which, enum keyword exclusive, int sign, struct bound *bound) {
    for (uint32_t i = 0; i < limits->count; i++) {
        const uint32_t *node = limits->of[i]->node;
        int is_flag = limits->json->nodes[node[exclusive]].kind == JSON_TRUE;
        if (node[which] && !tighten(limits->json, node[which], which, is_flag, sign, bound))
            return 0;
        if (node[exclusive] && !is_flag && !tighten(limits->json, node[exclusive], exclusive, 1, sign, bound))
            return 0;
    }
    return 1;
}

int find_bounds(const struct limits *limits) {
    struct decimal value;
    low = high = (struct bound){0};
    step = (struct step){0};
    if (!find_bound(limits, KEY_MINIMUM, KEY_EXCLUSIVE_MINIMUM, 1, &low) || !find_bound(limits, KEY_MAXIMUM, KEY_EXCLUSIVE_MAXIMUM, -1, &high))
        return 0;
    for (uint32_t i = 0; i < limits->count; i++) {
        uint32_t node = limits->of[i]->node[KEY_MULTIPLE_OF];
        if (!node)
            continue;
        if (!read_decimal(limits->json, node, &value) || value.is_negative || !(value.whole || value.fraction) || !join_step(&step, &value))
            return refuse("multipleOf", "a number over 0 of at most 17 digits, also where several have to fit");
    }
    return 1;
}

int number_fits(const struct json *json, uint32_t node) {
    struct decimal value;
    if (!low.is_there && !high.is_there && !step.units)
        return 1;
    if (!may_build() || !read_decimal(json, node, &value))
        return refuse("const", "a number of at most 16 digits before the point and 16 after it beside its limits");
    int over = low.is_there ? compare_decimals(&value, &low.value) : 1, under = high.is_there ? compare_decimals(&high.value, &value) : 1;
    return (over > 0 || (over == 0 && !low.is_exclusive)) && (under > 0 || (under == 0 && !high.is_exclusive)) &&
           (!step.units || is_multiple(&value, &step));
}

/* ---- remainders ---- */

/* What a prefix has to be told apart by, for each number of places; 0: too much for this guest. In `settled` places the step
 * has to come out even, so of a prefix only the remainder by what the places until there leave open matters. */
static int find_moduli(void) {
    uint64_t modulus = step.units;
    for (int32_t place = PLACES; place >= 0; place--) {
        if (place < settled)
            modulus /= modulus % 10 == 0 ? 10 : modulus % 5 == 0 ? 5 : modulus % 2 == 0 ? 2 : 1;
        if (place < settled && modulus > MAX_REMAINDERS)
            return 0;
        moduli[place] = place < settled ? (uint32_t)modulus : 1;
    }
    return 1;
}

/* The remainder after one more digit; 0: no number in steps begins so. */
static int add_digit(uint32_t place, uint32_t rest, uint32_t digit, uint32_t *after) {
    uint64_t value = (uint64_t)rest * 10 + digit;
    *after = 0;
    if ((int32_t)place >= settled)
        return digit == 0;
    if ((int32_t)place + 1 == settled)
        return value % step.units == 0;
    *after = (uint32_t)(value % moduli[place + 1]);
    return 1;
}

static void find_digits(const struct bound *bound, struct digits *digits) {
    uint64_t whole = bound->value.whole, fraction = bound->value.fraction;
    for (uint32_t i = POINT; i-- > 0; whole /= 10, fraction /= 10) {
        digits->at[i] = (uint8_t)(whole % 10);
        digits->at[POINT + i] = (uint8_t)(fraction % 10);
    }
    digits->rest[0] = 0;
    digits->lives[0] = 1;
    for (uint32_t i = 0; i < PLACES; i++)
        digits->lives[i + 1] = add_digit(i, digits->rest[i], digits->at[i], &digits->rest[i + 1]) && digits->lives[i];
}

/* ---- states ---- */

/* Whether a number may end after these places: where its digits are a bound's, the bound's other digits decide. */
static int may_end(uint32_t place, uint32_t like, uint32_t rest) {
    int low_left = 0, high_left = 0;
    for (uint32_t i = place; i < PLACES; i++) {
        low_left |= of_low.at[i] != 0;
        high_left |= of_high.at[i] != 0;
    }
    if (rest != 0 || (like & LIKE_LOW && (low_left || low.is_exclusive)))
        return 0;
    return !(like & LIKE_HIGH && !high_left && high.is_exclusive);
}

/* One more digit from `first` on, then what follows it. */
static uint32_t digit_states(uint32_t place, uint32_t like, uint32_t rest, uint32_t first, const struct level *after) {
    uint32_t to[10], all = DEAD_STATE;
    for (uint32_t digit = 0; digit < 10; digit++) {
        uint32_t next, kept = like;
        to[digit] = DEAD_STATE;
        if (digit < first || (like & LIKE_LOW && digit < of_low.at[place]) || (like & LIKE_HIGH && digit > of_high.at[place]) ||
            !add_digit(place, rest, digit, &next))
            continue;
        if (digit != of_low.at[place])
            kept &= ~(uint32_t)LIKE_LOW;
        if (digit != of_high.at[place])
            kept &= ~(uint32_t)LIKE_HIGH;
        to[digit] = kept ? after->like[kept] : after->free[next];
    }
    for (uint32_t digit = 0; digit < 10; digit++) {
        struct byte_set set = {{0}};
        uint32_t earlier = 0;
        while (to[earlier] != to[digit])
            earlier++;
        if (earlier < digit || to[digit] == DEAD_STATE)
            continue;
        for (uint32_t i = digit; i < 10; i++)
            if (to[i] == to[digit])
                set_add(&set, '0' + i, '0' + i);
        all = split_state(all, byte_state(&set, to[digit]));
    }
    return all;
}

static uint32_t after_places(uint32_t place, uint32_t like, uint32_t rest, const struct level *after, uint32_t next, int is_whole) {
    uint32_t end = place >= POINT && may_end(place, like, rest) ? next : DEAD_STATE;
    if (place == PLACES || (place == POINT && is_whole))
        return end;
    uint32_t more = digit_states(place, like, rest, 0, after);
    if (place == POINT && more != DEAD_STATE)
        more = range_state('.', '.', more);
    return split_state(end, more);
}

static void make_level(uint32_t place, struct level *level, const struct level *after, uint32_t next, int is_whole) {
    for (uint32_t rest = 0; rest < moduli[place] && may_build(); rest++)
        level->free[rest] = after_places(place, 0, rest, after, next, is_whole);
    int is_one = 1; /* the bounds begin alike */
    for (uint32_t i = 0; i < place; i++)
        is_one &= of_low.at[i] == of_high.at[i];
    for (uint32_t like = 1; like < 4; like++) {
        const struct digits *digits = like & LIKE_LOW ? &of_low : &of_high;
        int is_met = digits->lives[place] && (like < 3 || is_one) && (low.is_there || !(like & LIKE_LOW)) && (high.is_there || !(like & LIKE_HIGH));
        level->like[like] = is_met ? after_places(place, like, digits->rest[place], after, next, is_whole) : DEAD_STATE;
    }
}

/* Numbers of `count` digits before the point, of which the first stands at the place before `level`. */
static uint32_t counted_states(uint32_t count, const struct level *level) {
    uint64_t least = 1, over;
    uint32_t like = 0;
    for (uint32_t i = 1; i < count; i++)
        least *= 10;
    over = least * 10;
    if ((low.is_there && low.value.whole >= over) || (high.is_there && count > 1 && high.value.whole < least))
        return DEAD_STATE;
    if (low.is_there && (count == 1 || low.value.whole >= least))
        like |= LIKE_LOW;
    if (high.is_there && high.value.whole < over)
        like |= LIKE_HIGH;
    return digit_states(POINT - count, like, 0, count > 1, level);
}

/* The sign has been read: sizes from low to high. */
static uint32_t size_states(int is_whole, uint32_t next) {
    uint32_t all = DEAD_STATE;
    if (low.is_there && high.is_there && compare_decimals(&low.value, &high.value) > 0)
        return DEAD_STATE;
    find_digits(&low, &of_low);
    find_digits(&high, &of_high);
    for (uint32_t place = is_whole ? POINT : PLACES; place > 0 && may_build(); place--) {
        make_level(place, &levels[place % 2], &levels[(place + 1) % 2], next, is_whole);
        if (place <= POINT)
            all = split_state(all, counted_states(POINT + 1 - place, &levels[place % 2]));
    }
    return all;
}

static struct bound size_of(const struct bound *bound) {
    struct bound size = *bound;
    size.value.is_negative = 0;
    return size;
}

static uint32_t bounded_states(int is_whole, uint32_t next) {
    struct bound lowest = low, highest = high;
    uint32_t all = DEAD_STATE;
    if (!step.units) /* no step is the smallest */
        step = (struct step){1, is_whole ? 0 : FRACTION_DIGITS};
    settled = (int32_t)(POINT + step.scale);
    for (; step.units % 10 == 0; step.units /= 10)
        settled--;
    if (!find_moduli())
        return (uint32_t)refuse("multipleOf", "a number whose digits are at most 1024, without zeros at its end") + DEAD_STATE;
    if (!highest.is_there || !highest.value.is_negative) {
        low = lowest.value.is_negative ? (struct bound){0} : lowest;
        all = size_states(is_whole, next);
    }
    if (!lowest.is_there || lowest.value.is_negative) { /* 0 has no sign */
        low = highest.is_there && highest.value.is_negative ? size_of(&highest) : (struct bound){.is_there = 1, .is_exclusive = 1};
        high = lowest.is_there ? size_of(&lowest) : (struct bound){0};
        uint32_t sizes = size_states(is_whole, next);
        if (sizes != DEAD_STATE)
            all = split_state(all, range_state('-', '-', sizes));
    }
    return all;
}

/* ---- rules: numbers alike are written once ---- */

#define MAX_RULES 128u

static struct {
    struct bound low, high;
    struct step step;
    int is_whole;
    uint32_t rule;
} rules[MAX_RULES];
static uint32_t rule_count;

void numbers_clear(void) {
    rule_count = 0;
}

static int same_bound(const struct bound *a, const struct bound *b) {
    return a->is_there == b->is_there && a->is_exclusive == b->is_exclusive && compare_decimals(&a->value, &b->value) == 0;
}

uint32_t number_states(const struct limits *limits, int is_whole, uint32_t next) {
    if (!find_bounds(limits))
        return DEAD_STATE;
    if (!low.is_there && !high.is_there && !step.units)
        return is_whole ? any_whole(next) : any_number(next);
    for (uint32_t i = 0; i < rule_count; i++)
        if (same_bound(&rules[i].low, &low) && same_bound(&rules[i].high, &high) && rules[i].step.units == step.units &&
            rules[i].step.scale == step.scale && rules[i].is_whole == is_whole)
            return call_state(rules[i].rule, next);
    if (rule_count == MAX_RULES)
        return bounded_states(is_whole, next);
    rules[rule_count].low = low;
    rules[rule_count].high = high;
    rules[rule_count].step = step;
    rules[rule_count].is_whole = is_whole;
    uint32_t rule = bounded_states(is_whole, RETURN_STATE);
    rules[rule_count++].rule = rule;
    return call_state(rule, next);
}

uint32_t whole_states(uint32_t next) {
    low = high = (struct bound){0};
    step = (struct step){0};
    return bounded_states(1, next);
}
