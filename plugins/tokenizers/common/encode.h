/* From text to ids: special tokens first, what lies between them by the guest. */
#ifndef ENCODE_H
#define ENCODE_H

#include <stdint.h>

/* Most ids that a text of n bytes can become: each byte one, a prefixed space, BOS and EOS. */
#define ENCODE_MOST(n) ((n) + 3)

/* Writes the ids of the text to `ids`, which has room for ENCODE_MOST(length); flags are those of sealhost.h.
 * Returns their number, or -1 when the work space is too small. */
int32_t encode_text(const uint8_t *text, uint32_t length, uint32_t flags, uint32_t *ids);

#endif
