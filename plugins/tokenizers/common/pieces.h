/* Pieces that this call has encoded before.
 *
 * Words repeat: of each short piece the place and the ids of its last occurrence are kept, in the text and in the output
 * of the same call. The next call forgets them, so nothing of one text shows in another.
 */
#ifndef PIECES_H
#define PIECES_H

#include <stdint.h>

/* A new call: all that was seen is forgotten. */
void pieces_begin(void);

/* As guest_merge. The piece and the ids must stay where they are until the call ends. */
int32_t piece_ids(const uint8_t *piece, uint32_t length, uint32_t *ids);

#endif
