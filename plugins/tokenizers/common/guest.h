/* What each tokenizer of this folder adds to the common part. */
#ifndef GUEST_H
#define GUEST_H

#include <stdint.h>

#include "stream.h"
#include "vocabulary.h"

/* Looks at `tokenizer.ggml.model` and `.pre`, and says how the vocabulary spells bytes. SEALHOST_OK, or an error whose
 * text is set. */
int32_t guest_accept(const struct source *source, enum spelling *spelling);

/* Builds the guest's own tables, when vocabulary.tokens is complete. The source's bytes may be changed in place. */
int32_t guest_build(struct source *source);

/* Ids of [at, end), a stretch of text without special tokens, maybe empty; `first`: the text begins with it. Writes at most
 * one id for each byte, and one more when `first` is set. Returns their number, or -1 when the work space is too small. */
int32_t guest_encode(const uint8_t *at, const uint8_t *end, int first, uint32_t *ids);

/* Ids of a piece that merges within itself only; as guest_encode. Called through pieces.h. */
int32_t guest_merge(const uint8_t *piece, uint32_t length, uint32_t *ids);

#endif
