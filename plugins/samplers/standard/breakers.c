#include "breakers.h"

#include "limits.h"
#include "words.h"

struct text {
    uint32_t length;
    uint8_t bytes[MAX_BREAKER_TEXT];
};

static uint32_t ids[MAX_BREAKERS], id_count;
static struct text texts[MAX_BREAKERS + 1]; /* and the one that is being read */
static uint32_t text_count, longest_text;

#define KNOWN 1u
#define BREAKS 2u /* by itself */
#define BEGINS 4u /* ends with the beginning of a text */

static uint8_t kinds[VOCAB_CAPACITY]; /* of the ids that were looked at */
static int kinds_are_used;

void breakers_clear(void) {
    id_count = text_count = longest_text = 0;
    if (kinds_are_used)
        __builtin_memset(kinds, 0, sizeof kinds);
    kinds_are_used = 0;
}

static int has_room(void) {
    return id_count + text_count < MAX_BREAKERS;
}

int breakers_add_id(uint32_t id) {
    if (!has_room())
        return 0;
    ids[id_count++] = id;
    return 1;
}

uint8_t *breakers_text(void) {
    return texts[text_count].bytes;
}

int breakers_add_text(uint32_t length) {
    if (!has_room() || !length)
        return 0;
    texts[text_count++].length = length;
    longest_text = length > longest_text ? length : longest_text;
    return 1;
}

void breakers_default(void) {
    for (const char *letter = "\n:\"*"; *letter; letter++) {
        *breakers_text() = (uint8_t)*letter;
        breakers_add_text(1);
    }
}

static int equal(const uint8_t *a, const uint8_t *b, uint32_t count) {
    while (count && *a == *b) {
        a++;
        b++;
        count--;
    }
    return !count;
}

static int holds(const uint8_t *word, uint32_t length, const struct text *text) {
    for (uint32_t at = 0; at + text->length <= length; at++)
        if (equal(word + at, text->bytes, text->length))
            return 1;
    return 0;
}

/* The first place from `at` on where the word's rest is the beginning of a text that is longer; `length`: none. */
static uint32_t beginning(const uint8_t *word, uint32_t length, uint32_t at, const struct text *text) {
    if (length >= text->length && at + text->length <= length)
        at = length - text->length + 1;
    while (at < length && !equal(word + at, text->bytes, length - at))
        at++;
    return at;
}

static uint8_t kind_of(uint32_t id) {
    if (id < VOCAB_CAPACITY && kinds[id])
        return kinds[id];
    uint32_t length, kind = KNOWN;
    const uint8_t *word = word_of(id, &length);
    for (uint32_t i = 0; i < id_count; i++)
        kind |= ids[i] == id ? BREAKS : 0;
    for (uint32_t i = 0; i < text_count; i++) {
        if (holds(word, length, &texts[i]))
            kind |= BREAKS;
        else if (beginning(word, length, 0, &texts[i]) < length)
            kind |= BEGINS;
    }
    if (id < VOCAB_CAPACITY) {
        kinds[id] = (uint8_t)kind;
        kinds_are_used = 1;
    }
    return (uint8_t)kind;
}

int breakers_break(uint32_t id) {
    return (kind_of(id) & BREAKS) != 0;
}

/* How many ids lie behind the one with which the rest of a text ends, if those before the `left` last ones spell it;
 * `left` + 1: they do not. */
static uint32_t left_behind(const uint32_t *last, uint32_t left, const struct text *text, uint32_t done) {
    for (uint32_t i = left; i--;) {
        uint32_t length, rest = text->length - done;
        const uint8_t *word = word_of(*(last - i), &length);
        uint32_t compared = length < rest ? length : rest;
        if (!length || !equal(word, text->bytes + done, compared))
            break;
        done += compared;
        if (done == text->length)
            return i;
    }
    return left + 1;
}

/* The fewest ids behind a text that begins in the id before the `left` last ones; `left` + 1: none does. */
static uint32_t fewest_behind(const uint32_t *last, uint32_t left) {
    uint32_t length, fewest = left + 1;
    const uint8_t *word = word_of(*(last - left), &length);
    for (uint32_t i = 0; i < text_count; i++) {
        if (holds(word, length, &texts[i]))
            continue;
        for (uint32_t at = beginning(word, length, 0, &texts[i]); at < length;
             at = beginning(word, length, at + 1, &texts[i])) {
            uint32_t behind = left_behind(last, left, &texts[i], length - at);
            fewest = behind < fewest ? behind : fewest;
        }
    }
    return fewest;
}

uint32_t breakers_limit(const uint32_t *last, uint32_t count, uint32_t most) {
    uint32_t reach = most + longest_text; /* a text that begins further from the end ends no nearer than `most` */
    for (uint32_t left = 0; left < count && (left < most || left < reach); left++) {
        uint8_t kind = kind_of(*(last - left));
        uint32_t behind = kind & BREAKS ? left : left + 1;
        if (kind & BEGINS) {
            uint32_t fewest = fewest_behind(last, left);
            behind = fewest < behind ? fewest : behind;
        }
        if (behind <= left)
            return behind < most ? behind : most;
    }
    return most;
}
