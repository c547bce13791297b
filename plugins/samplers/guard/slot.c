#include "slot.h"

#include "sealhost_guest.h"

void slot_begin(struct slot *slot, uint32_t prompt_length) {
    slot->known = prompt_length;
    slot->ban_count = 0;
}

void slot_copy(struct slot *slot, const struct slot *from, uint32_t prompt_length) {
    slot->known = from->known;
    slot->ban_count = from->ban_count;
    copy_bytes(slot->bans, from->bans, from->ban_count * sizeof from->bans[0]);
    if (from->known <= prompt_length)
        return;
    uint32_t count = from->known - prompt_length;
    copy_bytes(slot->ids + prompt_length, from->ids + prompt_length, count * sizeof from->ids[0]);
    copy_bytes(slot->states + prompt_length, from->states + prompt_length, count * sizeof from->states[0]);
}

uint32_t slot_compare(struct slot *slot, const uint32_t *history, uint32_t prompt_length, uint32_t history_length) {
    uint32_t limit = slot->known < history_length ? slot->known : history_length, standing = prompt_length;
    while (standing < limit && slot->ids[standing] == history[standing])
        standing++;
    slot->known = standing;
    return standing;
}

void slot_tidy(struct slot *slot, uint32_t settled, uint32_t standing) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < slot->ban_count; i++)
        if (slot->bans[i].position >= settled && slot->bans[i].position <= standing)
            slot->bans[kept++] = slot->bans[i];
    slot->ban_count = kept;
}

int slot_ban(struct slot *slot, uint32_t position, uint32_t id) {
    while (slot->ban_count && slot->bans[slot->ban_count - 1].position > position)
        slot->ban_count--;
    if (slot->ban_count == MAX_BANS)
        return 0;
    slot->bans[slot->ban_count++] = (struct ban){position, id};
    return 1;
}
