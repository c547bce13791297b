#include "patterns.h"

#include "unicode.h"

#define LONG_S 0x17F /* folds to "s", so (?i:'s) matches it */
#define NO_LIMIT 0xFFFFFFFFu
#define NOT_OTHER (CLASS_SPACE | CLASS_LETTER | CLASS_NUMBER)

/* End of the run of characters with one of these classes, at most `most` of them. */
static const uint8_t *run_end(const uint8_t *at, const uint8_t *end, uint32_t classes, uint32_t most) {
    while (at < end && most--) {
        struct character next = character_at(at, end);
        if (!(next.classes & classes))
            break;
        at += next.length;
    }
    return at;
}

/* End of the run of characters with none of these classes. */
static const uint8_t *other_run_end(const uint8_t *at, const uint8_t *end, uint32_t classes) {
    while (at < end) {
        struct character next = character_at(at, end);
        if (next.classes & classes)
            break;
        at += next.length;
    }
    return at;
}

/* 's 't 'm 'd 're 've 'll at an apostrophe; 0 when there is none. `fold` ignores case. */
static const uint8_t *contraction_end(const uint8_t *at, const uint8_t *end, int fold) {
    if (end - at < 2 || *at != '\'')
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
        if (!(space.classes & CLASS_SPACE))
            return last > at ? last : next;
        last = next;
        next += space.length;
    }
    return end;
}

const uint8_t *gpt2_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *contraction = contraction_end(at, end, 0);
    if (contraction)
        return contraction;
    const uint8_t *body = *at == ' ' && at + 1 < end ? at + 1 : at;
    uint32_t classes = character_at(body, end).classes;
    if (classes & CLASS_SPACE)
        return space_end(at, end);
    if (classes & CLASS_LETTER)
        return run_end(body, end, CLASS_LETTER, NO_LIMIT);
    return classes & CLASS_NUMBER ? run_end(body, end, CLASS_NUMBER, NO_LIMIT) : other_run_end(body, end, NOT_OTHER);
}

/* \s*[\r\n]+ : up to the last line break of the white space here; 0 when it has none. */
static const uint8_t *line_break_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *found = 0;
    while (at < end) {
        struct character space = character_at(at, end);
        if (!(space.classes & CLASS_SPACE))
            break;
        at += space.length;
        if (space.point == '\r' || space.point == '\n')
            found = at;
    }
    return found;
}

/* " ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+" where no word and no number starts. `known`: classes that the
 * first of these leaves out; `slash`: it takes slashes among the line breaks. */
static const uint8_t *rest_end(const uint8_t *at, const uint8_t *end, uint32_t known, int slash) {
    const uint8_t *body = *at == ' ' && at + 1 < end ? at + 1 : at;
    if (!(character_at(body, end).classes & known)) {
        at = other_run_end(body, end, known);
        while (at < end && (*at == '\r' || *at == '\n' || (slash && *at == '/')))
            at++;
        return at;
    }
    const uint8_t *line_break = line_break_end(at, end);
    return line_break ? line_break : space_end(at, end);
}

/* Where a word's letters begin when [^\r\n\p{L}\p{N}]? takes what it can: after the first character, or at it. */
static const uint8_t *after_prefix(const uint8_t *at, const uint8_t *end) {
    struct character first = character_at(at, end);
    int prefix = !(first.classes & (CLASS_LETTER | CLASS_NUMBER)) && *at != '\r' && *at != '\n';
    return prefix ? at + first.length : at;
}

const uint8_t *cl100k_end(const uint8_t *at, const uint8_t *end, uint32_t letters, uint32_t digits) {
    const uint8_t *contraction = contraction_end(at, end, 1);
    if (contraction)
        return contraction;
    uint32_t classes = character_at(at, end).classes;
    if (classes & CLASS_NUMBER)
        return run_end(at, end, CLASS_NUMBER, digits);
    const uint8_t *word = classes & letters ? at : after_prefix(at, end);
    if (word < end && character_at(word, end).classes & letters)
        return run_end(word, end, letters, NO_LIMIT);
    return rest_end(at, end, CLASS_SPACE | CLASS_NUMBER | letters, 0);
}

#define UPPER_WORD (CLASS_UPPER | CLASS_CASELESS | CLASS_MARK) /* U */
#define LOWER_WORD (CLASS_LOWER | CLASS_CASELESS | CLASS_MARK) /* W */

/* U*W+|U+W* from `at`; 0 when there is none. U* takes all that it can. When no W follows, it gives back up to the last
 * character that is both, which W+ then takes; when there is none of these either, U+W* takes the whole run.
 * `both_only`: the second alternative does not count. */
static const uint8_t *cased_word_end(const uint8_t *at, const uint8_t *end, int both_only) {
    const uint8_t *last_both = 0, *next = at;
    while (next < end) {
        struct character letter = character_at(next, end);
        if (!(letter.classes & UPPER_WORD))
            break;
        next += letter.length;
        if (letter.classes & LOWER_WORD)
            last_both = next;
    }
    if (next < end && character_at(next, end).classes & LOWER_WORD)
        return run_end(next, end, LOWER_WORD, NO_LIMIT);
    if (last_both)
        return last_both;
    return next > at && !both_only ? next : 0;
}

/* The first alternative with the prefix, then without; then the second one with it, then without. */
static const uint8_t *o200k_word_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *word = after_prefix(at, end), *found = cased_word_end(word, end, 1);
    if (!found && word > at)
        found = cased_word_end(at, end, 1);
    return found ? found : cased_word_end(word, end, 0);
}

const uint8_t *o200k_end(const uint8_t *at, const uint8_t *end, uint32_t digits, int contractions) {
    if (character_at(at, end).classes & CLASS_NUMBER)
        return run_end(at, end, CLASS_NUMBER, digits);
    const uint8_t *word = o200k_word_end(at, end);
    if (!word)
        return rest_end(at, end, NOT_OTHER, 1);
    const uint8_t *contraction = contractions && word < end ? contraction_end(word, end, 1) : 0;
    return contraction ? contraction : word;
}
