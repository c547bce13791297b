/* DRY's sequence breakers: what a repeated run may not hold.
 *
 * A breaker is an id or a text. A text breaks where a token holds it, and where a token ends with its beginning and the
 * tokens behind it spell the rest. Of these, the place nearest to the end of the history counts, as in llama.cpp, which
 * knows the rest by its tokenizer's ids alone; here any tokens that spell it will do.
 *
 * There is one set of them, the request's.
 */
#ifndef BREAKERS_H
#define BREAKERS_H

#include <stdint.h>

#define MAX_BREAKERS 64u       /* as many as the schema lets through */
#define MAX_BREAKER_TEXT 160u  /* bytes of the schema's 40 letters; llama.cpp cuts at 40 bytes */

void breakers_clear(void);

/* Whether there was room, and a text is none of 0 bytes. `breakers_text` gives MAX_BREAKER_TEXT bytes to write one to. */
int breakers_add_id(uint32_t id);
uint8_t *breakers_text(void);
int breakers_add_text(uint32_t length);

/* llama.cpp's: line feed, colon, quotation mark, asterisk. */
void breakers_default(void);

/* Whether an id breaks by itself: is named, or holds a text. */
int breakers_break(uint32_t id);

/* How many ids at the end of a history, of which `count` are looked at and the last one is at `last`, a run may have;
 * at most `most`. */
uint32_t breakers_limit(const uint32_t *last, uint32_t count, uint32_t most);

#endif
