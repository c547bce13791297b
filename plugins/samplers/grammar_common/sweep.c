#include "sweep.h"

#include "likeness.h"
#include "sealhost_guest.h"
#include "spelled.h"

/* How many tokens begin with a first letter, as a part of all: what walking fewer costs is less. */
#define WORTH_SWEEPING(tokens) ((tokens) > ordinary_tokens / 40)
#define WORTH_COPYING(tokens) ((tokens) > ordinary_tokens / 400)
#define WORTH_COMPARING(tokens) ((tokens) > ordinary_tokens / 80)
#define SHORT_LOOP 4u /* letters of a token: of so short ones, another mask's are better */

static struct sweep sweeps[MAX_SWEEPS];
static uint32_t sweep_count;
static uint8_t sweep_of_group[GROUPS]; /* 1 + the sweep of first letters of the group, 0: none */

const struct sweep *sweep_from(uint8_t byte) {
    uint8_t found = sweep_of_group[byte < 0x80 ? group_of[byte] : 0];
    return found ? &sweeps[found - 1] : 0;
}

/* Where all characters of a group lead, NOWHERE if not to one position. */
static uint32_t after_group(uint32_t position, uint32_t group) {
    const uint8_t *text = (const uint8_t *)group_characters[group];
    uint32_t found = *text ? next_aside(position, *text) : NOWHERE;
    for (; *text && found != NOWHERE; text++)
        if (next_aside(position, *text) != found)
            return NOWHERE;
    return usual(found, MAX_TOKEN_BYTES);
}

static uint32_t plain_groups(void) {
    static const struct spelling plain = {{SPELLS_WHOLE, ~(1u << 2), ~(1u << 28), ~(1u << 31)}}; /* no `"`, backslash, DEL */
    return groups_within(&plain);
}

/* Whether so many tokens may follow that looking for a better way than to walk is worth it. */
static int goes_far(const struct sweep *made) {
    static const struct spelling letters = {{0, 0, 0x07fffffe, 0x07fffffe}};
    struct byte_set all = bytes_read(made->position);
    struct spelling ascii = {{all.bits[0], all.bits[1], all.bits[2], all.bits[3]}};
    return WORTH_COPYING(made->tokens) && groups_within(&ascii) & groups_within(&letters);
}

/* Whether what follows is alike in another mask's position for all tokens of up to so many bytes; if it is not the same, that
 * may have to be found out. */
static int is_alike(const struct sweep *made, uint32_t other, uint32_t bytes, int may_compare) {
    uint32_t twin = 0;
    for (uint32_t group = 2; group < GROUPS; group++) {
        if (!(made->first >> group & 1))
            continue;
        uint32_t next = after_group(other, group);
        if (next == NOWHERE || (twin && twin != next))
            return 0;
        twin = next;
    }
    return twin == made->position || (may_compare && WORTH_COMPARING(made->tokens) && alike_for(twin, made->position, bytes) >= bytes);
}

/* Takes what another mask has of these first letters, if what follows them is alike. */
static int copy(struct sweep *made, const struct mask_source *from, int may_compare, uint32_t *mask) {
    uint32_t most = from->depth < SHORT_BYTES ? from->depth : SHORT_BYTES;
    if (!from->mask || !is_alike(made, from->position, most, may_compare))
        return 0;
    made->decided = most == from->depth ? MAX_TOKEN_BYTES : SHORT_BYTES;
    made->longest = (uint8_t)from->depth;
    made->is_copied = 1;
    const uint32_t *ids = tokens_spelled(made->first, ~0u)->ids, *with = short_tokens[SHORT_BYTES];
    if (made->decided == MAX_TOKEN_BYTES)
        for (uint32_t i = 0; i < mask_words; i++)
            mask[i] |= from->mask[i] & ids[i];
    else
        for (uint32_t i = 0; i < mask_words; i++)
            mask[i] |= from->mask[i] & ids[i] & with[i];
    return 1;
}

/* Follows the loop of the position after a first letter; 0: there is none, or it is not worth it. */
static int follow(struct sweep *made) {
    uint32_t whole;
    const struct loop *loop = loop_followed(made->position, SHORT_BYTES, &whole);
    if (!WORTH_SWEEPING(made->tokens) || loop->next <= NOWHERE)
        return 0;
    struct spelling letters = loop->bytes;
    uint32_t most = loop->sure;
    int is_endless = most == MOST_REACH, is_cut = loop->is_over && !spells_any(&loop->bytes, &loops[loop->end].live);
    if (whole < SHORT_BYTES && whole < most)
        letters.bits[0] &= ~SPELLS_WHOLE;
    if (letters.bits[0] & SPELLS_WHOLE && !(is_endless && loop->reach < SHORT_BYTES)) {
        most = whole;
        made->is_plain = 1; /* counted are letters of plain tokens */
    }
    made->others = groups_within(&letters) & (made->is_plain ? plain_groups() : ~0u);
    if (!made->others || !most)
        return 0;
    for (uint32_t group = 0; group < GROUPS; group++)
        for (uint32_t i = 0; i < 4 && made->others >> group & 1; i++)
            made->letters.bits[i] |= group_bytes[group].bits[i];
    for (uint32_t i = 0; i < 4; i++)
        made->exits.bits[i] = loop->ways.bits[i] & ~made->letters.bits[i];
    most = most < MOST_REACH ? most + 1 : most; /* with the first */
    made->most = (uint8_t)(most == MOST_REACH || most < SHORT_BYTES ? most : SHORT_BYTES);
    made->longest = is_cut && !made->is_plain && most <= SHORT_BYTES ? made->most : MAX_TOKEN_BYTES;
    made->decided = most == MOST_REACH || (is_cut && most <= SHORT_BYTES) ? MAX_TOKEN_BYTES : made->most;
    return 1;
}

/* Letters of a group lead to a position. */
static void begin_with(uint32_t group, uint32_t position) {
    uint32_t i = 0;
    while (i < sweep_count && sweeps[i].position != position)
        i++;
    if (i == MAX_SWEEPS)
        return;
    if (i == sweep_count)
        sweeps[sweep_count++] = (struct sweep){.position = position};
    sweeps[i].first |= 1u << group;
    sweeps[i].tokens += begun[group];
}

/* Whether characters beyond ASCII lead from one to the other. */
static int whole_leads_to(uint32_t position, uint32_t next) {
    uint32_t whole;
    const struct loop *loop = loop_followed(position, 1, &whole);
    return whole && usual(loop->next, MAX_TOKEN_BYTES) == next;
}

static void allow_swept(struct sweep *made, uint32_t position, uint32_t *mask) {
    if (made->others & GROUP_WHOLE && whole_leads_to(position, made->position))
        made->first |= GROUP_WHOLE;
    if (made->is_plain)
        made->first &= plain_groups();
    const struct spelled *spelled = tokens_spelled(made->first, made->others);
    const uint32_t *ids = spelled->ids, *with = 0;
    made->longest = (uint8_t)least_of(made->longest, spelled->longest);
    if (made->most != MOST_REACH)
        with = made->is_plain ? plain_tokens[made->most] : short_tokens[made->most];
    if (!with)
        for (uint32_t i = 0; i < mask_words; i++)
            mask[i] |= ids[i];
    else
        for (uint32_t i = 0; i < mask_words; i++)
            mask[i] |= ids[i] & with[i];
}

uint32_t sweep(uint32_t position, const struct mask_source *from, uint32_t *mask) {
    uint32_t made_count = 0;
    sweep_count = 0;
    clear_bytes(sweep_of_group, sizeof sweep_of_group);
    for (uint32_t group = 2; group < GROUPS; group++) {
        uint32_t next = after_group(position, group);
        if (next != NOWHERE)
            begin_with(group, next);
    }
    for (uint32_t i = 0; i < sweep_count; i++) {
        struct sweep *made = &sweeps[i];
        if (!goes_far(made))
            continue;
        int has_loop = follow(made), is_copied = copy(made, from, !has_loop || made->most < SHORT_LOOP, mask);
        if (!has_loop && !is_copied)
            continue;
        if (!is_copied)
            allow_swept(made, position, mask);
        made_count++;
        for (uint32_t group = 0; group < GROUPS; group++)
            if (made->first >> group & 1)
                sweep_of_group[group] = (uint8_t)(i + 1);
    }
    return made_count;
}
