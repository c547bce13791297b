#include "pretokenize.h"

#include <stddef.h>

#include "sealhost_guest.h"
#include "unicode.h"

#define LONG_S 0x17F /* folds to "s", so (?i:'s) matches it */

enum pre_kind pre_kind_of(const uint8_t *name, uint32_t length) {
    static const struct {
        const char *name;
        uint32_t length;
        enum pre_kind kind;
    } known[] = {
        {"gpt-2", 5, PRE_GPT2},         {"smollm", 6, PRE_SMOLLM},   {"qwen2", 5, PRE_QWEN2},
        {"llama-bpe", 9, PRE_LLAMA_BPE}, {"llama3", 6, PRE_LLAMA_BPE}, {"llama-v3", 8, PRE_LLAMA_BPE}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (length == known[i].length && equal_bytes(name, (const uint8_t *)known[i].name, length))
            return known[i].kind;
    return PRE_UNKNOWN;
}

/* End of the run of characters of one class that starts at `at`; at most `most` characters. */
static const uint8_t *run_end(const uint8_t *at, const uint8_t *end, enum char_class class, uint32_t most) {
    while (at < end && most--) {
        struct character next = character_at(at, end);
        if (next.class != class)
            break;
        at += next.length;
    }
    return at;
}

#define NO_LIMIT 0xFFFFFFFFu

/* 's 't 'm 'd 're 've 'll at an apostrophe; 0 when there is none. `fold` ignores case. */
static const uint8_t *contraction_end(const uint8_t *at, const uint8_t *end, int fold) {
    if (end - at < 2)
        return 0;
    struct character first = character_at(at + 1, end);
    uint32_t letter = fold && first.point < 0x80 ? first.point | 0x20 : first.point;
    if (letter == 's' || letter == 't' || letter == 'm' || letter == 'd' || (fold && letter == LONG_S))
        return at + 1 + first.length;
    if (end - at < 3)
        return 0;
    uint32_t second = fold ? at[2] | 0x20u : at[2];
    int two = (letter == 'r' && second == 'e') || (letter == 'v' && second == 'e') || (letter == 'l' && second == 'l');
    return two ? at + 3 : 0;
}

/* \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows it. */
static const uint8_t *space_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *last = at, *next = at;
    while (next < end) {
        struct character space = character_at(next, end);
        if (space.class != CLASS_SPACE)
            return last > at ? last : next;
        last = next;
        next += space.length;
    }
    return end;
}

static const uint8_t *gpt2_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *contraction = *at == '\'' ? contraction_end(at, end, 0) : 0;
    if (contraction)
        return contraction;
    const uint8_t *body = *at == ' ' && at + 1 < end ? at + 1 : at;
    enum char_class class = character_at(body, end).class;
    if (class == CLASS_SPACE)
        return space_end(at, end);
    return run_end(body, end, class, NO_LIMIT);
}

/* \s*[\r\n]+ : up to the last line break of the white space here; 0 when it has none. */
static const uint8_t *line_break_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *found = 0;
    while (at < end) {
        struct character space = character_at(at, end);
        if (space.class != CLASS_SPACE)
            break;
        at += space.length;
        if (space.point == '\r' || space.point == '\n')
            found = at;
    }
    return found;
}

/* " ?[^\s\p{L}\p{N}]+[\r\n]*" from its first other character. */
static const uint8_t *other_end(const uint8_t *at, const uint8_t *end) {
    at = run_end(at, end, CLASS_OTHER, NO_LIMIT);
    while (at < end && (*at == '\r' || *at == '\n'))
        at++;
    return at;
}

static const uint8_t *llama_end(const uint8_t *at, const uint8_t *end, uint32_t digits) {
    const uint8_t *contraction = *at == '\'' ? contraction_end(at, end, 1) : 0;
    if (contraction)
        return contraction;
    struct character first = character_at(at, end);
    if (first.class == CLASS_LETTER)
        return run_end(at, end, CLASS_LETTER, NO_LIMIT);
    if (first.class == CLASS_NUMBER)
        return run_end(at, end, CLASS_NUMBER, digits);
    const uint8_t *second = at + first.length;
    enum char_class follows = second < end ? character_at(second, end).class : CLASS_SPACE;
    if (follows == CLASS_LETTER && *at != '\r' && *at != '\n')
        return run_end(second, end, CLASS_LETTER, NO_LIMIT);
    if (first.class == CLASS_OTHER)
        return other_end(at, end);
    if (*at == ' ' && follows == CLASS_OTHER)
        return other_end(second, end);
    const uint8_t *line_break = line_break_end(at, end);
    return line_break ? line_break : space_end(at, end);
}

/* A number alone, or a piece of the stretch up to the next number: the stretch's end is the text's end to gpt-2. */
static const uint8_t *smollm_end(struct scan *scan) {
    if (scan->at >= scan->stretch_end) {
        struct character first = character_at(scan->at, scan->end);
        if (first.class == CLASS_NUMBER)
            return scan->at + first.length;
        const uint8_t *stretch = scan->at;
        while (stretch < scan->end) {
            struct character next = character_at(stretch, scan->end);
            if (next.class == CLASS_NUMBER)
                break;
            stretch += next.length;
        }
        scan->stretch_end = stretch;
    }
    return gpt2_end(scan->at, scan->stretch_end);
}

const uint8_t *next_piece(struct scan *scan) {
    switch (scan->kind) {
    case PRE_SMOLLM:
        return scan->at = smollm_end(scan);
    case PRE_LLAMA_BPE:
        return scan->at = llama_end(scan->at, scan->end, 3);
    case PRE_QWEN2:
        return scan->at = llama_end(scan->at, scan->end, 1);
    default:
        return scan->at = gpt2_end(scan->at, scan->end);
    }
}
