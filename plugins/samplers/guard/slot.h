/* What the guard keeps of one choice: the matcher's state after each generated id, and what it has forbidden where.
 *
 * An id is forbidden at a position after going back to it, for the beginning that stands there then. So an entry is
 * dropped as soon as its position stands for good, or as an id before it is taken back.
 */
#ifndef SLOT_H
#define SLOT_H

#include <stdint.h>

#include "limits.h"

#define MAX_BANS 1024u

struct ban {
    uint32_t position; /* index into the history */
    uint32_t id;
};

struct slot {
    uint32_t known;     /* ids and states are there for prompt_length <= i < known */
    uint32_t ban_count; /* in ascending order of position */
    struct ban bans[MAX_BANS];
    uint32_t ids[HISTORY_CAPACITY];    /* the history when it was last looked at: what still stands is what equals it */
    uint16_t states[HISTORY_CAPACITY]; /* the matcher's, after the id at the same index */
};

void slot_begin(struct slot *slot, uint32_t prompt_length);
void slot_copy(struct slot *slot, const struct slot *from, uint32_t prompt_length);

/* Forgets what does not stand any more. Returns up to where the history is as it was. */
uint32_t slot_compare(struct slot *slot, const uint32_t *history, uint32_t prompt_length, uint32_t history_length);

/* Drops the entries before `settled` and behind `standing`: their beginnings are not the history's. */
void slot_tidy(struct slot *slot, uint32_t settled, uint32_t standing);

/* Forbids an id at a position and drops what stands behind it. 0: there is no room. */
int slot_ban(struct slot *slot, uint32_t position, uint32_t id);

#endif
