#include "objects.h"

#include "limits.h"
#include "names.h"
#include "naming.h"
#include "schema.h"
#include "sealhost_guest.h"
#include "states.h"
#include "values.h"

static uint32_t least, most; /* members */

static int find_counts(const struct limits *limits) {
    least = 0;
    most = ENDLESS;
    return largest(limits, KEY_MIN_PROPERTIES, MAX_PROPERTIES, &least) && smallest(limits, KEY_MAX_PROPERTIES, MAX_PROPERTIES, &most);
}

/* ---- states by the number of members before ---- */

/* after[n]: what follows n members of those that were looked at, from the last to the first. Numbers over `last` are alike. */
static uint32_t after[MAX_PROPERTIES + 2], last;

static uint32_t one_more(uint32_t count) {
    return count < last ? count + 1 : count;
}

/* Where the members that have names of their own are over. Names of other members may repeat, so all of these count as one
 * for `least`, and each for `most` (clause 1.4). */
static int end_states(const struct limits *limits, uint32_t next) {
    int is_counted = most != ENDLESS;
    uint32_t closed = range_state('}', '}', next), loop = is_counted ? RETURN_STATE : open_state();
    uint32_t other = other_states(limits, loop), more = is_counted ? closed : loop; /* after another member */
    if (other != DEAD_STATE && !is_counted)
        close_state(loop, spaced(',', other), closed);
    if (other != DEAD_STATE && least > member_count + 1)
        return refuse("minProperties", "at most one more than there are names, for names that the schema does not list may repeat");
    for (uint32_t count = last + 1; count-- > 0 && may_build();) {
        uint32_t this = DEAD_STATE;
        if (other != DEAD_STATE && count < most)
            this = is_counted ? call_state(other, more) : other;
        if (count < most && is_counted && other != DEAD_STATE)
            more = split_state(count > 0 ? spaced(',', this) : DEAD_STATE, closed);
        if (count + 1 < least)
            this = DEAD_STATE;
        if (count > 0 && this != DEAD_STATE)
            this = spaced(',', this);
        after[count] = split_state(this, count >= least && count <= most ? closed : DEAD_STATE);
    }
    return 1;
}

static void member_states(const struct limits *limits, const struct member *member) {
    static struct parts parts;
    uint32_t target = DEAD_STATE, this = DEAD_STATE;
    parts.count = 0;
    member_parts(limits, member, &parts);
    for (uint32_t count = 0; count <= last && may_build(); count++) { /* after[count + 1] still is what follows this member */
        uint32_t follows = count < most ? after[one_more(count)] : DEAD_STATE;
        if (follows != target) {
            uint32_t value = value_states(limits->json, &parts, follows);
            target = follows;
            this = DEAD_STATE;
            if (value != DEAD_STATE && follows != DEAD_STATE && !member->is_never)
                this = quoted(limits->json->text + member->name, member->length, spaced(':', value));
        }
        uint32_t begun = this != DEAD_STATE && count > 0 ? spaced(',', this) : this;
        after[count] = member->is_required ? begun : split_state(begun, after[count]);
    }
}

uint32_t object_states(const struct limits *limits, uint32_t next) {
    if (!find_counts(limits) || !find_names(limits))
        return DEAD_STATE;
    last = most != ENDLESS ? most : least;
    last = last > 0 ? last : 1;
    if (!end_states(limits, next))
        return DEAD_STATE;
    for (uint32_t i = member_count; i-- > 0 && may_build() && !is_refused;)
        member_states(limits, &members[i]);
    return after[0] == DEAD_STATE ? DEAD_STATE : range_state('{', '{', after[0]);
}

/* ---- constants ---- */

static uint32_t constant_member(const struct limits *limits, uint32_t node, uint32_t next) {
    static struct parts parts;
    const struct json_node *part = &limits->json->nodes[node];
    const struct member *member = member_with(limits->json, part->key, part->key_length);
    struct member other = {.name = part->key, .length = part->key_length, .own = NO_OWN};
    parts.count = 0;
    add_part(&parts, node, PART_VALUE);
    member_parts(limits, member ? member : &other, &parts);
    uint32_t value = value_states(limits->json, &parts, next);
    if (value == DEAD_STATE || !name_fits(limits->json, part->key, part->key_length))
        return DEAD_STATE;
    return quoted(limits->json->text + part->key, part->key_length, range_state(':', ':', value));
}

uint32_t constant_object(const struct limits *limits, uint32_t value, uint32_t next) {
    const struct json *json = limits->json;
    uint32_t count = 0, required = 0, state = range_state('}', '}', next);
    if (!find_counts(limits) || !find_names(limits))
        return DEAD_STATE;
    for (uint32_t i = json->nodes[value].first; i && may_build(); i = json->nodes[i].next) {
        const struct member *member = member_with(json, json->nodes[i].key, json->nodes[i].key_length);
        required += member && member->is_required;
        count++;
    }
    for (uint32_t i = 0; i < member_count; i++)
        required -= members[i].is_required;
    if (required != 0 || count < least || count > most)
        return DEAD_STATE;
    for (uint32_t i = json->nodes[value].last; i && state != DEAD_STATE && may_build() && !is_refused; i = json->nodes[i].before) {
        state = constant_member(limits, i, state);
        if (json->nodes[i].before && state != DEAD_STATE)
            state = range_state(',', ',', state);
    }
    return state == DEAD_STATE ? state : range_state('{', '{', state);
}
