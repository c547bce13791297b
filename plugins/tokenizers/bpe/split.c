#include "split.h"

#include "blanks.h"
#include "patterns.h"
#include "unicode.h"

static int is_cjk(uint32_t point) {
    return (point >= 0x800 && point <= 0x9FA5) || (point >= 0xAC00 && point <= 0xD7FF);
}

/* [!-/:-~！-／：-～‘-‟　-。] */
static int is_listed_punct(uint32_t point) {
    static const struct {
        uint16_t first, last;
    } listed[] = {{'!', '/'}, {':', '~'}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}, {0x2018, 0x201F}, {0x3000, 0x3002}};
    for (uint32_t i = 0; i < sizeof listed / sizeof listed[0]; i++)
        if (point >= listed[i].first && point <= listed[i].last)
            return 1;
    return 0;
}

static int is_maths(uint32_t point) {
    return point == '$' || point == '+' || (point >= '<' && point <= '>') || point == '^' || point == '~' || point == '|';
}

static int in_set(struct character one, uint32_t set) {
    return (one.classes & set) || (set & SET_LINE_FEED && one.point == '\n') ||
           (set & SET_LINE_BREAKS && (one.point == '\n' || one.point == '\r')) ||
           (set & SET_CJK && is_cjk(one.point)) || (set & SET_LISTED_PUNCT && is_listed_punct(one.point)) ||
           (set & SET_MATHS && is_maths(one.point));
}

/* End of the characters from `at` on that are in the set, or that are not, as `inside` says. */
static const uint8_t *while_in(const uint8_t *at, const uint8_t *end, uint32_t set, int inside) {
    while (at < end) {
        struct character next = character_at(at, end);
        if (in_set(next, set) != inside)
            break;
        at += next.length;
    }
    return at;
}

static const uint8_t *run_end(const uint8_t *at, const uint8_t *end, uint32_t set) {
    return while_in(at, end, set, in_set(character_at(at, end), set));
}

static const uint8_t *each_end(const uint8_t *at, const uint8_t *end, uint32_t set) {
    struct character first = character_at(at, end);
    return in_set(first, set) ? at + first.length : while_in(at, end, set, 0);
}

/* Where a run begins that may start at `at`, with or without a white space before it; 0: none starts here. */
static const uint8_t *spaced_run(const uint8_t *at, const uint8_t *end, uint32_t set) {
    struct character first = character_at(at, end);
    const uint8_t *second = at + first.length;
    if (first.classes & CLASS_SPACE && second < end && in_set(character_at(second, end), set))
        return second;
    return in_set(first, set) ? at : 0;
}

static const uint8_t *spaced_run_end(const uint8_t *at, const uint8_t *end, uint32_t set) {
    const uint8_t *run = spaced_run(at, end, set);
    if (run)
        return while_in(run, end, set, 1);
    do
        at += character_at(at, end).length;
    while (at < end && !spaced_run(at, end, set));
    return at;
}

/* The first byte of the character that ends before `end`. */
static const uint8_t *character_before(const uint8_t *start, const uint8_t *end) {
    const uint8_t *at = end - 1;
    while (at > start && end - at < 4 && (*at & 0xC0) == 0x80)
        at--;
    return utf8_at(at, end).length == (uint32_t)(end - at) ? at : end - 1;
}

static const uint8_t *trailing_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *space = end;
    while (space > at) {
        const uint8_t *before = character_before(at, space);
        if (!(character_at(before, space).classes & CLASS_SPACE))
            break;
        space = before;
    }
    return space > at ? space : end;
}

static int is_number_byte(uint8_t byte) {
    return (uint8_t)(byte - '0') < 10 || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 || (byte >= 0xBC && byte <= 0xBE);
}

static const uint8_t *number_bytes_end(const uint8_t *at, const uint8_t *end) {
    int inside = is_number_byte(*at);
    while (at < end && is_number_byte(*at) == inside)
        at++;
    return at;
}

static int is_triple(const uint8_t *at, const uint8_t *end) {
    return end - at >= 3 && (uint8_t)(at[0] - '0') < 10 && (uint8_t)(at[1] - '0') < 10 && (uint8_t)(at[2] - '0') < 10;
}

static const uint8_t *triple_end(const uint8_t *at, const uint8_t *end) {
    if (is_triple(at, end))
        return at + 3;
    do
        at++;
    while (at < end && !is_triple(at, end));
    return at;
}

/* End of the first part into which a step splits [at, end). */
static const uint8_t *part_end(const struct step *step, const uint8_t *at, const uint8_t *end) {
    switch ((enum step_kind)step->kind) {
    case STEP_GPT2:
        return gpt2_end(at, end);
    case STEP_CL100K:
        return cl100k_end(at, end, step->set, step->most);
    case STEP_O200K:
        return o200k_end(at, end, step->most, step->set);
    case STEP_RUNS:
        return run_end(at, end, step->set);
    case STEP_EACH:
        return each_end(at, end, step->set);
    case STEP_SPACED_RUNS:
        return spaced_run_end(at, end, step->set);
    case STEP_TRAILING:
        return trailing_end(at, end);
    case STEP_NUMBER_BYTES:
        return number_bytes_end(at, end);
    case STEP_TRIPLES:
        return triple_end(at, end);
    case STEP_WORDS:
        return blanks_piece_end(at, end);
    case STEP_NONE:
        break;
    }
    return end;
}

const uint8_t *next_piece(struct scan *scan) {
    const uint8_t *end = scan->end;
    for (uint32_t i = 0; i < MOST_STEPS && rule->steps[i].kind != STEP_NONE; i++) {
        if (scan->ends[i] <= scan->at)
            scan->ends[i] = part_end(&rule->steps[i], scan->at, end);
        end = scan->ends[i];
    }
    return scan->at = end;
}
