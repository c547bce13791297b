/* A position's loop leads where most characters lead, to itself in a string without bounds, to a position of its own kind
 * where letters are counted. It is looked for when a walk that does without it would have cost as much. */
#include "loops.h"

#include "states.h"

struct loop loops[MAX_POSITIONS];
static struct spelling class_spelling[256]; /* ASCII of each class */
static uint8_t class_letters[256];          /* of these, what is printed */
static uint8_t is_beyond[256];              /* whether it has bytes that are not ASCII, or NUL or SOH */
static uint32_t classes_round;

static void find_class_spellings(void) {
    if (classes_round == position_round + 1)
        return;
    classes_round = position_round + 1;
    for (uint32_t class = 0; class < class_count; class++) {
        class_spelling[class] = (struct spelling){{0}};
        class_letters[class] = is_beyond[class] = 0;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        is_beyond[class_of[byte]] |= byte < 2 || byte >= 0x80;
        if (byte < 2 || byte >= 0x80)
            continue;
        class_spelling[class_of[byte]].bits[byte / 32] |= 1u << byte % 32;
        class_letters[class_of[byte]] += byte >= ' ';
    }
}

/* Where more than half of the ASCII characters lead that lead anywhere; where there is no such place, any. */
static uint32_t most_common(uint32_t position) {
    uint32_t found = NOWHERE, votes = 0;
    for (uint32_t class = 0; class < class_count; class++) {
        uint32_t next = class_letters[class] ? next_aside(position, class_byte[class]) : NOWHERE;
        if (next == NOWHERE)
            continue;
        if (next == found)
            votes += class_letters[class];
        else if (votes >= class_letters[class])
            votes -= class_letters[class];
        else {
            votes = class_letters[class] - votes;
            found = next;
        }
    }
    return found;
}

/* Whether all bytes from low to high lead from *at to one position, which *at becomes. */
static int lead_alike(uint32_t *at, uint32_t low, uint32_t high) {
    uint32_t next = next_aside(*at, (uint8_t)low), class = class_of[low];
    for (uint32_t byte = low + 1; byte <= high; byte++) {
        if (class_of[byte] != class && next_aside(*at, (uint8_t)byte) != next)
            return 0;
        class = class_of[byte];
    }
    *at = next;
    return next != NOWHERE;
}

/* Whether every character beyond ASCII leads to `next`. */
static int all_lead_to(uint32_t position, uint32_t next) {
    for (uint32_t lead = 0xc2; lead < 0xf5; lead++) {
        uint32_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3, at = next_aside(position, (uint8_t)lead);
        uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (lead != 0xc2 && lead != 0xe1 && lead != 0xee && lead != 0xf1 && low == 0x80 && high == 0xbf &&
            class_of[lead] == class_of[lead - 1])
            continue; /* the same as the one before */
        for (; more > 0; more--, low = 0x80, high = 0xbf)
            if (at == NOWHERE || !lead_alike(&at, low, high))
                return 0;
        if (at != next)
            return 0;
    }
    return 1;
}

static void add_bits(struct spelling *all, const struct spelling *more) {
    for (uint32_t i = 0; i < 4; i++)
        all->bits[i] |= more->bits[i];
}

static struct loop *loop_of(uint32_t position) {
    static const struct spelling any = {{~0u, ~0u, ~0u, ~0u}}, beyond = {{SPELLS_WHOLE | SPELLS_TORN}};
    struct loop *loop = &loops[position];
    if (loop->found == position_round + 1)
        return loop;
    find_class_spellings();
    *loop = (struct loop){.next = most_common(position), .end = position, .found = position_round + 1};
    for (uint32_t class = 0; class < class_count; class++) {
        uint32_t next = next_aside(position, class_byte[class]);
        if (next == NOWHERE)
            continue;
        if (next == loop->next)
            add_bits(&loop->bytes, &class_spelling[class]);
        add_bits(&loop->live, &class_spelling[class]);
        if (is_beyond[class])
            add_bits(&loop->live, &beyond);
    }
    loop->ways = loop->live;
    loop->knows_whole = !(loop->live.bits[0] & SPELLS_WHOLE) || loop->next == NOWHERE;
    if (!loop->knows_whole) /* until it is asked for */
        loop->bytes.bits[0] |= SPELLS_WHOLE;
    if (!may_look_aside()) { /* some of this is not known */
        *loop = (struct loop){.live = any, .ways = any, .end = position, .knows_whole = 1};
    }
    return loop;
}

static void find_whole(uint32_t position) {
    struct loop *loop = &loops[position];
    if (loop->knows_whole)
        return;
    loop->knows_whole = 1;
    if (loop->bytes.bits['~' / 32] >> '~' % 32 & 1 && leads_as_letters(position, '~'))
        return;
    if (!all_lead_to(position, loop->next))
        loop->bytes.bits[0] &= ~SPELLS_WHOLE;
}

/* Follows the loop for so many letters of ASCII, if it goes on. */
static void extend(struct loop *loop, uint32_t letters) {
    while (loop->sure < letters && !loop->is_over && loop->reach < FAR_REACH && may_look_aside()) {
        uint32_t next = loops[loop->end].next;
        if (next == loop->end) {
            loop->sure = MOST_REACH;
            return;
        }
        if (loop->reach + same_for(loop->end, next) >= letters) { /* and so on */
            loop->sure = (uint8_t)letters;
            return;
        }
        const struct loop *after = loop_of(next);
        if (after->found != position_round + 1) /* there was no time: of what follows, nothing is known */
            return;
        loop->reach++;
        loop->sure = loop->reach > loop->sure ? loop->reach : loop->sure;
        loop->end = next;
        struct spelling bytes = loop->bytes;
        bytes.bits[0] &= ~SPELLS_WHOLE;
        add_bits(&loop->ways, &after->live);
        loop->is_over = !spells_only(&bytes, &after->bytes);
    }
}

/* Whether the position has a loop, or may have one now: unless walking on is cheaper than looking for it. */
static int may_find(uint32_t position, const struct node *node) {
    struct loop *loop = &loops[position];
    if (loop->found == position_round + 1)
        return 1;
    if (loop->asked != position_round + 1)
        *loop = (struct loop){.asked = position_round + 1};
    if (node->longest - node->depth > FAR_REACH && next_aside(position, node[1].byte) != position)
        return 0;
    uint32_t walked = loop->tokens + nodes[node->end].first - node->first;
    loop->tokens = (uint16_t)(walked < LOOP_TOKENS ? walked : LOOP_TOKENS);
    return walked >= LOOP_TOKENS && may_look_aside();
}

int look_round(uint32_t position, const struct node *node) {
    if (!may_find(position, node))
        return 0;
    struct loop *loop = loop_of(position);
    if (loop->found != position_round + 1)
        return 0;
    if (spells_only(&spellings[node->spelling], &loop->bytes)) {
        if (spellings[node->spelling].bits[0] & SPELLS_WHOLE)
            find_whole(position);
        extend(loop, node->longest - node->depth - 1u);
    }
    return 1;
}

const struct loop *loop_followed(uint32_t position, uint32_t letters, uint32_t *whole) {
    struct loop *loop = loop_of(position);
    uint32_t at = position, known = 0, most = 0;
    if (loop->found == position_round + 1) {
        extend(loop, letters);
        most = loop->sure < letters ? loop->sure : letters;
    }
    while (known < most && may_look_aside()) {
        find_whole(at);
        if (!(loops[at].bytes.bits[0] & SPELLS_WHOLE))
            break;
        uint32_t next = loops[at].next, same = next == at ? most : same_for(at, next);
        known = known + same < most ? known + 1 : most;
        at = next;
    }
    *whole = known;
    return loop;
}

int goes_round_plain(uint32_t position) {
    static const struct spelling plain = {{SPELLS_WHOLE, ~(1u << 2), ~(1u << 28), ~(1u << 31)}}; /* no `"`, backslash, DEL */
    uint32_t next = may_look_aside() ? next_aside(position, ' ') : NOWHERE;
    if (next == NOWHERE || (next != position && same_for(next, position) < PLAIN_LETTERS))
        return 0;
    const struct loop *loop = loop_of(position);
    find_whole(position);
    return loop->next == next && spells_only(&plain, &loop->bytes);
}
