/* Finds banned texts in a stream of bytes: Aho and Corasick, Efficient String Matching, CACM 1975, with the failure
 * links folded into one table, so that each byte costs one look-up whatever is banned.
 *
 * There is one matcher; a state is a number, 0 at a text's beginning.
 */
#ifndef MATCHER_H
#define MATCHER_H

#include <stdint.h>

#define MAX_STATES 8192u /* bytes of all banned texts together, but for beginnings that they share, and the start */

void matcher_begin(int ignores_case);

/* Adds a text of at least one byte. 0: there is no room. */
int matcher_add(const uint8_t *text, uint32_t length);

/* After the last text, before the first look-up. */
void matcher_finish(void);

struct match {
    uint32_t state;  /* after the bytes */
    uint32_t length; /* bytes of the longest banned text that ends first; 0: none ends in these bytes */
    uint32_t before; /* how many of them lie before these bytes */
};

/* Reads bytes from a state on. After a match it goes on, so `state` is right in any case. */
struct match matcher_read(uint32_t state, const uint8_t *bytes, uint32_t count);

/* Whether anything is banned. */
int matcher_has_texts(void);

#endif
