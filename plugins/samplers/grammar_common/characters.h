/* Sets of characters, and the bytes that spell them. */
#ifndef GRAMMAR_CHARACTERS_H
#define GRAMMAR_CHARACTERS_H

#include <stdint.h>

#define MAX_RANGES 512u /* of one class */
#define LAST_CHARACTER 0x10ffffu

struct characters {
    uint32_t count;
    struct {
        uint32_t low, high;
    } ranges[MAX_RANGES];
};

/* Returns 0 when there is no room. */
int add_characters(struct characters *set, uint32_t low, uint32_t high);

/* Sorts and joins ranges; surrogates, which UTF-8 does not spell, drop out when states are made. */
void join_characters(struct characters *set);

/* Makes it the set of all others. */
int invert_characters(struct characters *set);

/* The character at text[*at], which it moves; the text is UTF-8. */
uint32_t read_character(const uint8_t *text, uint32_t length, uint32_t *at);

/* States that read one of a joined set's characters: in UTF-8, or as JSON strings spell it. */
uint32_t character_states(const struct characters *set, int in_string, uint32_t next);

/* Marks the states that read the first bytes of plain letters, from where one begins: `ascii` where they read ASCII,
 * `others` elsewhere (states.h). */
void mark_plain(uint32_t letter, uint8_t ascii, uint8_t others);

#endif
