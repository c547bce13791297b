#include "strings.h"

#include "characters.h"
#include "conditions.h"
#include "formats.h"
#include "product.h"
#include "regex.h"
#include "sealhost_guest.h"
#include "states.h"
#include "values.h"

struct pattern {
    const uint8_t *text;
    uint32_t length;
    uint32_t format; /* NO_FORMAT: it is a pattern of the schema's */
    int is_from_start, is_not; /* it matches where the text begins; no text may match it */
};

static const char most_patterns[] = "at most 10 patterns and formats for one text";
static struct pattern patterns[2 * MAX_PARTS];
static uint32_t pattern_count, format_rules[2][FORMATS + 1], least, most; /* rules: whose letters do not tick, and do */

void strings_clear(void) {
    clear_bytes(format_rules, sizeof format_rules);
}

uint32_t pattern_of(const uint8_t *text, uint32_t length, int form, uint32_t next) {
    uint32_t state = regex_states(text, length, (enum regex_form)form, next);
    if (regex_problem && !build_problem)
        refuse("pattern", regex_problem);
    return regex_problem ? DEAD_STATE : state;
}

static void add_pattern(struct pattern pattern) {
    for (uint32_t i = 0; i < pattern_count; i++)
        if (patterns[i].length == pattern.length && patterns[i].format == pattern.format && patterns[i].is_not == pattern.is_not &&
            patterns[i].is_from_start == pattern.is_from_start && equal_bytes(patterns[i].text, pattern.text, pattern.length))
            return;
    if (pattern_count == sizeof patterns / sizeof *patterns)
        refuse("pattern", most_patterns);
    else
        patterns[pattern_count++] = pattern;
}

/* A pattern of the schema's: what it looks ahead for, and what it matches. */
static void add_search(const uint8_t *text, uint32_t length) {
    struct condition condition;
    uint32_t at = length > 0 && text[0] == '^', begin = at;
    while (begin && take_condition(text, length, &at, &condition))
        add_pattern((struct pattern){text + condition.from, condition.length, NO_FORMAT, 1, condition.is_not});
    if (at > begin)
        add_pattern((struct pattern){text + at, length - at, NO_FORMAT, 1, 0});
    else
        add_pattern((struct pattern){.text = text, .length = length});
}

static int find_patterns(const struct limits *limits) {
    const struct json *json = limits->json;
    pattern_count = least = 0;
    most = ENDLESS;
    for (uint32_t i = 0; i < limits->count; i++) {
        const struct json_node *pattern = &json->nodes[limits->of[i]->node[KEY_PATTERN]];
        if (limits->of[i]->node[KEY_PATTERN])
            add_search(json->text + pattern->at, pattern->length);
        if (limits->of[i]->node[KEY_FORMAT]) {
            uint32_t format = format_named(json, limits->of[i]->node[KEY_FORMAT]), length = 0;
            const char *text = format_pattern(format);
            while (text[length])
                length++;
            add_pattern((struct pattern){(const uint8_t *)text, length, format, 0, 0});
            most = format_most(format) < most ? format_most(format) : most;
        }
    }
    if (is_refused || !largest(limits, KEY_MIN_LENGTH, MAX_LENGTH, &least))
        return 0;
    return smallest(limits, KEY_MAX_LENGTH, MAX_LENGTH, &most);
}

static uint32_t inner_states(const struct pattern *pattern, int is_counted, uint32_t next) {
    int form = pattern->format ? REGEX_STRING : pattern->is_from_start ? REGEX_SEARCH | REGEX_FROM_START : REGEX_SEARCH;
    return pattern_of(pattern->text, pattern->length, form | (is_counted ? REGEX_COUNTED : REGEX_CALLS), next);
}

/* All between the quotes that fits one pattern; formats are long, so they are written once and called. */
static uint32_t one_pattern(const struct pattern *pattern, int is_counted, uint32_t next) {
    if (!pattern->format)
        return inner_states(pattern, is_counted, next);
    uint32_t *rule = &format_rules[is_counted][pattern->format];
    if (!*rule)
        *rule = inner_states(pattern, is_counted, RETURN_STATE);
    return is_counted ? *rule : call_state(*rule, next);
}

static uint32_t count_needed(void) {
    uint32_t needed = 0;
    for (uint32_t i = 0; i < pattern_count; i++)
        needed += !patterns[i].is_not;
    return needed;
}

static void add_automata(int is_not) {
    for (uint32_t i = 0; i < pattern_count && !is_refused; i++)
        if (patterns[i].is_not == is_not)
            together_add(inner_states(&patterns[i], 1, together_end()));
}

static uint32_t several_patterns(int is_counted, uint32_t next) {
    uint32_t needed = count_needed();
    if (pattern_count > MAX_TOGETHER)
        return (uint32_t)refuse("pattern", most_patterns) + DEAD_STATE;
    together_begin(needed, least, is_counted);
    add_automata(0);
    add_automata(1);
    if (is_refused || !together_meet())
        return DEAD_STATE;
    answers[(1u << needed) - 1] = next;
    return together_states();
}

uint32_t text_states(const struct limits *limits, uint32_t next) {
    uint32_t end = range_state('"', '"', next);
    if (!find_patterns(limits) || least > most)
        return DEAD_STATE;
    int is_counted = most != ENDLESS, is_one = pattern_count == 1 && least <= (patterns[0].format ? format_least(patterns[0].format) : 0);
    if (pattern_count == 0)
        return least == 0 && !is_counted ? string_states(next) : sized_string(least, most, next);
    uint32_t after = is_counted ? RETURN_STATE : end; /* what is counted is a rule of its own */
    uint32_t inner = is_one ? one_pattern(&patterns[0], is_counted, after) : several_patterns(is_counted, after);
    if (is_counted && inner != DEAD_STATE)
        inner = count_state(inner, (struct count){.most = most}, end);
    return inner == DEAD_STATE ? inner : range_state('"', '"', inner);
}

/* ---- names ---- */

int find_automata(const struct limits *limits, struct text_automata *found) {
    if (!find_patterns(limits))
        return 0;
    found->least = least;
    found->needed = count_needed() + (most != ENDLESS); /* which is an automaton, too */
    found->unwanted = pattern_count - count_needed();
    return 1;
}

void add_needed_automata(void) {
    add_automata(0);
    if (most == ENDLESS)
        return;
    static const struct characters letters = {.count = 1, .ranges = {{0, LAST_CHARACTER}}};
    uint32_t end = together_end(), state = end;
    for (uint32_t i = 0; i < most && may_build(); i++)
        state = split_state(character_states(&letters, 1, tick_state(state)), end);
    together_add(state);
}

void add_unwanted_automata(void) {
    add_automata(1);
}

/* ---- constants ---- */

int text_fits(const struct limits *limits, uint32_t at, uint32_t length) {
    const uint8_t *text = limits->json->text + at;
    uint32_t letters = 0, before = state_count;
    if (!find_patterns(limits))
        return 0;
    for (uint32_t i = 0; i < length && may_step(); i++)
        letters += (text[i] & 0xc0) != 0x80;
    int fits = letters >= least && (most == ENDLESS || letters <= most);
    for (uint32_t i = 0; i < pattern_count && fits && may_build(); i++) {
        uint32_t end = open_state();
        int form = patterns[i].format ? REGEX_TEXT : patterns[i].is_from_start ? REGEX_FIND | REGEX_FROM_START : REGEX_FIND;
        fits = takes_text(pattern_of(patterns[i].text, patterns[i].length, form, end), end, text, length) != patterns[i].is_not;
        states_drop(before);
    }
    return fits;
}
