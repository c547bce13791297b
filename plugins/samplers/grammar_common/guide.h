/* What both grammar samplers do with their automaton. Include it in plugin.c after defining
 *
 *     static int32_t compile(uint32_t *start);   // from config[row->config_length]; an error status with its text
 */
#ifndef GRAMMAR_GUIDE_H
#define GRAMMAR_GUIDE_H

#define SEALHOST_TIER_MASK
#define SEALHOST_VOCABULARY (8u << 20)
#include "likeness.h"
#include "limits.h"
#include "loops.h"
#include "positions.h"
#include "regex.h"
#include "sealhost_sampler.h"
#include "states.h"
#include "walk.h"

static int32_t compile(uint32_t *start);

static uint32_t here;   /* the position after the ids of the history that were read */
static uint32_t read;   /* generated ids that were read; begins anew with each request */
static int began, ended;
static uint32_t masks[CACHED_MASKS][MASK_WORDS], next_mask, last_dear[2]; /* the two dear ones that served last, by number + 1 */
static uint32_t last_served; /* the mask that did, by number */
static struct {
    uint32_t owner; /* the position, 0: none */
    uint32_t depth; /* bytes of the longest beginning of a token that can follow */
    uint32_t nodes; /* that were looked at for it or for what it was made from */
} made[CACHED_MASKS];

SEALHOST_EXPORT(init) int32_t init(void) {
    const char *problem = trie_build(tokens.bytes, &tokens.table);
    if (!problem)
        return SEALHOST_OK;
    error_begin("init: more ");
    error_text(problem);
    error_text(" than this guest has room for");
    return SEALHOST_ERROR_CAPACITY;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    began = 0;
    return SEALHOST_OK;
}

static int32_t too_much(const char *what) {
    error_begin("expected a grammar within this guest's bounds, got one with too many ");
    error_text(what);
    error_text("; make it simpler");
    return SEALHOST_ERROR_CONFIG;
}

/* Positions that are made anew know no masks. */
static void forget_masks(void) {
    last_dear[0] = last_dear[1] = 0;
    for (uint32_t i = 0; i < CACHED_MASKS; i++)
        made[i].owner = 0;
}

static int32_t begin(void) {
    uint32_t start = DEAD_STATE;
    states_clear();
    int32_t status = compile(&start);
    if (status)
        return status;
    if (build_problem)
        return too_much(build_problem);
    if (!states_finish(start))
        return fail(SEALHOST_ERROR_INPUT, has_deep_calls ? "expected a grammar that some text fits with at most 96 open calls, got one that none does"
                                                         : "expected a grammar that some text fits, got one that none does");
    here = positions_begin(start);
    if (position_problem)
        return too_much(position_problem);
    read = 0;
    began = 1;
    ended = 0;
    forget_masks();
    return SEALHOST_OK;
}

/* Follows the ids that stand in the history; what was drawn under our masks always fits. */
static int32_t catch_up(void) {
    for (uint32_t i = row->prompt_length + read; i < row->history_length; i++, read++) {
        uint32_t length = 0;
        if ((int32_t)history[i] == tokens.table.eos) {
            ended = 1;
            continue;
        }
        const uint8_t *text = history[i] < tokens.table.count ? token_text(history[i], &length) : 0;
        for (uint32_t j = 0; j < length; j++)
            here = next_position(here, text[j]);
        if (position_problem)
            return too_much(position_problem);
        if (here == NOWHERE || length == 0)
            return fail(SEALHOST_ERROR_EMPTY, "expected a history that fits the grammar, got another, which nothing can follow");
    }
    return SEALHOST_OK;
}

/* ---- masks: kept, taken from a position that is alike, or walked ---- */

static const uint32_t *serve(uint32_t number) {
    last_served = number;
    if (made[number].nodes >= LIKE_NODES && last_dear[0] != number + 1) {
        last_dear[1] = last_dear[0];
        last_dear[0] = number + 1;
    }
    return masks[number];
}

/* A dear mask of a position that is like this one, and for how many bytes; CACHED_MASKS: there is none. */
static uint32_t like(uint32_t position, uint32_t *bytes) {
    uint32_t found = CACHED_MASKS;
    *bytes = 0;
    for (uint32_t i = 0; i < 2 && last_dear[i]; i++) {
        uint32_t number = last_dear[i] - 1, depth = made[number].depth + 1;
        uint32_t owner = made[number].owner, alike = owner ? alike_for(owner, position, least_of(depth, SHORT_BYTES)) : 0;
        if (owner && same_for(owner, position) >= depth) /* where it has longer tokens, too */
            alike = depth;
        if (alike <= *bytes)
            continue;
        *bytes = alike;
        found = number;
        if (alike > SHORT_BYTES / 2 || alike == depth)
            break;
    }
    return found;
}

/* Those of another that are as short as the two positions are alike. */
static void take_short(uint32_t *mask, const uint32_t *from, uint32_t bytes, uint32_t room) {
    for (uint32_t i = 0; i < mask_words; i++)
        mask[i] = (from[i] & short_tokens[bytes][i]) | plain_tokens[room][i];
}

static uint32_t free_mask(void) {
    uint32_t number = next_mask++ % CACHED_MASKS;
    if (made[number].owner)
        positions[made[number].owner].mask = 0;
    made[number].owner = 0;
    return number;
}

/* The mask of a position, without the end. 0: a bound was met. */
static const uint32_t *mask_of(uint32_t position) {
    if (positions[position].mask)
        return serve(positions[position].mask - 1u);
    uint32_t bytes, alike = like(position, &bytes);
    if (!positions[position].room && goes_round_plain(position))
        positions[position].room = PLAIN_LETTERS;
    uint32_t room = positions[position].room;
    if (bytes && bytes > made[alike].depth && room == positions[made[alike].owner].room)
        return serve(alike);
    bytes = least_of(bytes, SHORT_BYTES);
    uint32_t number = free_mask();
    if (number == alike)
        number = free_mask();
    uint32_t *mask = masks[number];
    if (bytes)
        take_short(mask, masks[alike], bytes, room);
    else
        copy_bytes(mask, plain_tokens[room], mask_words * sizeof *mask); /* none with no letters */
    struct mask_source from = {0};
    uint32_t before = last_served;
    if (before != number && made[before].owner && !positions[made[before].owner].room)
        from = (struct mask_source){masks[before], made[before].owner, made[before].depth};
    if (!walk(room ? other_tokens : all_tokens, position, bytes, &from, mask))
        return 0;
    made[number].owner = position;
    made[number].depth = walked_depth;
    made[number].nodes = walked_nodes;
    if (bytes) {
        made[number].depth = walked_depth > made[alike].depth ? walked_depth : made[alike].depth;
        made[number].nodes = walked_nodes > made[alike].nodes ? walked_nodes : made[alike].nodes;
    }
    positions[position].mask = (uint16_t)(number + 1);
    return serve(number);
}

/* The only id of a mask; NO_TOKEN: there are others, or none, which `any` tells. */
static uint32_t only_id(const uint32_t *mask, int *any) {
    uint32_t found = NO_TOKEN;
    *any = 0;
    for (uint32_t i = 0; i < (tokens.table.count + 31) / 32; i++) {
        if (!mask[i])
            continue;
        if (*any || (mask[i] & (mask[i] - 1)))
            return *any = 1, NO_TOKEN;
        *any = 1;
        found = i * 32 + (uint32_t)__builtin_ctz(mask[i]);
    }
    return found;
}

/* Appends ids for as long as each is the only one that may follow: just what drawing would give. */
static int32_t forced(uint32_t id, uint32_t room) {
    uint32_t count = 0, length, position = here;
    for (int any = 1; id != NO_TOKEN && count < room && count < MAX_FORCED;) {
        answer_words[count++] = id;
        const uint8_t *text = token_text(id, &length);
        for (uint32_t i = 0; i < length; i++)
            position = next_position(position, text[i]);
        const uint32_t *mask = positions[position].accepts || position == NOWHERE ? 0 : mask_of(position);
        if (position_problem)
            return too_much(position_problem);
        id = mask ? only_id(mask, &any) : NO_TOKEN;
    }
    return fast_forward(count);
}

static int32_t sample(void) {
    if (!began || row->flags & SEALHOST_ROW_NEW || row->history_length < row->prompt_length + read) {
        if (begin()) /* whatever it says, the configuration is why */
            return SEALHOST_ERROR_CONFIG;
    }
    uint32_t round = position_round;
    here = positions_renew(here);
    if (position_round != round)
        forget_masks();
    int32_t status = position_problem ? too_much(position_problem) : catch_up();
    if (status)
        return status;
    int any, accepts = positions[here].accepts;
    const uint32_t *mask = ended ? 0 : mask_of(here);
    if (ended)
        return answer(SEALHOST_STOP, 0);
    if (!mask)
        return too_much(position_problem);
    uint32_t only = only_id(mask, &any);
    if (!any)
        return accepts ? answer(SEALHOST_STOP, 0)
                       : fail(SEALHOST_ERROR_EMPTY, "no token of this model continues what the grammar allows");
    if (only != NO_TOKEN && !accepts)
        return forced(only, SEALHOST_HISTORY - row->history_length);
    copy_bytes(answer_words, mask, (row->vocab_size + 31) / 32 * 4);
    if (accepts && tokens.table.eos >= 0)
        allow((uint32_t)tokens.table.eos);
    return answer_mask();
}

#endif
