/* From text to ids: special tokens first, then pieces, then merges. */
#ifndef ENCODE_H
#define ENCODE_H

#include <stdint.h>

#include "vocabulary.h"

/* Most ids that a text of n bytes can become: each byte one, BOS and EOS. */
#define ENCODE_MOST(n) ((n) + 2)

/* Writes the ids of the text to `ids`, which has room for ENCODE_MOST(length); flags are those of sealhost.h.
 * Returns their number, or -1 when the work space is too small. */
int32_t encode_text(
    const struct vocabulary *vocabulary, const uint8_t *text, uint32_t length, uint32_t flags, uint32_t *ids);

#endif
