/* What each token spells, as the host wrote it before `init` (clause 2.16): part of the snapshot, so that a request pays
 * nothing for it but for the pages that it reads.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>

/* Where `size` bytes of a struct sealhost_token_table go; 0: there is no room. */
int32_t words_place(uint32_t size);

/* The bytes of an id; none for a control token, an id that the table does not have, and where there is no table. */
const uint8_t *word_of(uint32_t id, uint32_t *length);

#endif
