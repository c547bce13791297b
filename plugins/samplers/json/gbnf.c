/* The tree of a grammar as states, from the end of each rule to its beginning.
 *
 * What is small is written anew wherever it is used, so that the automaton has few calls; what is large or holds itself
 * is written once and called. Rules come in an order in which those that a rule needs stand before it, so that only
 * recursion meets a rule that is not yet written. A list of frames replaces recursion here.
 */
#include "gbnf.h"

#include "gbnf_tree.h"
#include "positions.h"
#include "sealhost_guest.h"
#include "states.h"

#define COPIED 512u      /* states that the copies of one part may take */
#define COPIED_ALL 8192u /* states that all copies together may take more than calls would */
#define COUNTED_COPIES 8u /* of a class: fewer are written out, so that short texts open no calls */
#define INLINED 32u      /* states of a rule that is copied into others */
#define INLINED_DEPTH 8u /* groups within groups of such a rule */
#define SET_STATES 8u    /* a class beyond ASCII takes about so many */
#define FRAMES (2u * (GBNF_NESTING + INLINED_DEPTH) + 8u) /* a part that is called has one more for its body */
#define MOST_SIZE 65536u /* so that sums do not wrap */

struct frame {
    uint32_t part;
    uint32_t group;      /* whose sequences make a copy; NO_PART: none do */
    uint32_t next;       /* follows all copies */
    uint32_t state;      /* where the copies that were made begin */
    uint32_t optional, mandatory; /* copies to be made */
    uint32_t loop;       /* where an endless repetition comes back to, until its copy was made; 0: there is none */
    uint32_t sequence, item, at, all; /* of the copy that is being made */
    uint32_t letters;    /* copies of a letter that were made */
    uint8_t mark;        /* what the plain letters of its copies are, 0: nothing (trie.h) */
    uint8_t is_copying, is_body, is_letter;
};

static struct frame frames[FRAMES];
static uint32_t frame_count;
static uint32_t order[GBNF_RULES], begins[GBNF_RULES], opened[GBNF_RULES]; /* of rules: first states, 0: not yet */
static uint32_t part_begins[GBNF_PARTS]; /* of parts that are called */
static uint32_t letter_begins[GBNF_PARTS]; /* of parts that are the letters of strings with bounds */
static uint32_t size[GBNF_PARTS], inlined_size[GBNF_RULES]; /* states of one copy; of a rule, 0: it is called */
static uint16_t levels[GBNF_PARTS], rule_levels[GBNF_RULES]; /* groups within groups, those of copied rules included */
static uint8_t calls[GBNF_PARTS], is_needed[GBNF_RULES]; /* it holds calls; it is called */
static struct characters set;

/* ---- what is copied, and what is called ---- */

/* Whether a part's turns are counted outside of its states (states.h). */
static int is_counted(const struct part *part) {
    return part->kind == PART_SET && part->most != GBNF_FOR_EVER && part->most >= COUNTED_COPIES;
}

static uint32_t copies_of(const struct part *part) {
    return is_counted(part) ? 1 : part->most != GBNF_FOR_EVER ? part->most : part->least > 0 ? part->least : 1;
}

/* States that a literal or class takes, about. */
static uint32_t simple_size(const struct part *part) {
    uint32_t found = part->kind == PART_SET;
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t high = grammar.ranges[part->a + i].high;
        if (part->kind == PART_TEXT)
            found += high < 0x80 ? 1 : 3;
        else if (high >= 0x80)
            found += part->count == 1 ? SET_STATES : 2;
    }
    return found;
}

/* Decides whether a part's copies are calls, and returns how many states they take. */
static uint32_t measure_copies(uint32_t index, uint32_t *left) {
    struct part *part = &grammar.parts[index];
    int is_rule = part->kind == PART_RULE;
    uint32_t copies = copies_of(part), called = copies + (is_rule ? 0 : size[index]);
    uint32_t copied = size[index] < MOST_SIZE / GBNF_MAX_REPEAT || copies < 2 ? copies * size[index] : MOST_SIZE;
    uint32_t more = copied > called ? copied - called : 0;
    if (is_rule)
        part->is_called = !size[index] || copied > COPIED || more > *left;
    else
        part->is_called = copies > 1 && size[index] > 1 && (copied > COPIED || more > *left);
    calls[index] |= part->is_called;
    if (is_rule && part->is_called)
        is_needed[part->a] = 1;
    if (!part->is_called)
        *left -= more;
    return part->is_called ? called : copied;
}

/* Measures a rule's parts, upwards from the innermost. */
static void measure(uint32_t rule, uint32_t *left) {
    uint32_t first = grammar.rules[rule].first, body = grammar.rules[rule].body;
    for (uint32_t i = first; i <= body; i++)
        size[i] = levels[i] = calls[i] = 0;
    for (uint32_t i = first; i < body; i++) {
        const struct part *part = &grammar.parts[i];
        if (part->kind == PART_TEXT || part->kind == PART_SET)
            size[i] = simple_size(part);
        if (part->kind == PART_RULE) {
            size[i] = inlined_size[part->a];
            levels[i] = rule_levels[part->a];
        }
        uint32_t whole = part->whole, level = levels[i] + (part->kind == PART_GROUP), sum = size[whole];
        sum += measure_copies(i, left);
        size[whole] = sum < MOST_SIZE ? sum : MOST_SIZE;
        calls[whole] |= calls[i];
        levels[whole] = (uint16_t)(level > levels[whole] ? level : levels[whole]);
    }
    rule_levels[rule] = levels[body] + 1;
    inlined_size[rule] = !calls[body] && size[body] < INLINED && levels[body] < INLINED_DEPTH ? size[body] + 1 : 0;
}

/* ---- parts that hold no others ---- */

/* One character of these ranges; `set` holds them afterwards. */
static uint32_t one_character(const struct range *ranges, uint32_t count, uint32_t next) {
    set.count = count;
    for (uint32_t i = 0; i < count; i++) {
        set.ranges[i].low = ranges[i].low;
        set.ranges[i].high = ranges[i].high;
    }
    return character_states(&set, 0, next);
}

static int holds(uint32_t low, uint32_t high) {
    for (uint32_t i = 0; i < set.count; i++)
        if (set.ranges[i].low <= low && high <= set.ranges[i].high)
            return 1;
    return 0;
}

static int holds_plain(const struct part *part) {
    set.count = 0;
    for (uint32_t i = 0; i < part->count; i++)
        add_characters(&set, grammar.ranges[part->a + i].low, grammar.ranges[part->a + i].high);
    return holds(' ', '!') && holds('#', '[') && holds(']', '~') && holds(0x80, 0xd7ff) && holds(0xe000, LAST_CHARACTER);
}

/* Characters of a class again and again, as a rule whose turns are counted. */
static uint32_t counted_states(const struct part *part, uint32_t next) {
    uint32_t loop = open_state(), turn = tick_state(loop);
    uint32_t letter = one_character(&grammar.ranges[part->a], part->count, turn);
    close_state(loop, letter, RETURN_STATE);
    if (holds_plain(part))
        mark_plain(letter, LETTER_OF_LOOP, LETTER_BEGIN);
    return count_state(loop, (struct count){.most = part->most, .least = part->least}, next);
}

/* Marks the states from `begin` on that read the first byte of plain letters, unless others led to them before. */
static void mark_letters(uint32_t begin, uint32_t before, uint8_t mark) {
    uint32_t todo[32], count = 0;
    todo[count++] = begin;
    while (count > 0) {
        uint32_t index = todo[--count];
        struct state *state = &states[index];
        if (state->kind == STATE_SPLIT && count + 2 <= 32) {
            todo[count++] = state->a;
            todo[count++] = state->b;
        } else if (state->kind == STATE_BYTE && index >= before) {
            if (set_has(&sets[state->a], 'a'))
                state->letters = mark;
            else if (mark == LETTER)
                state->letters = LETTER_BEGIN;
        }
    }
}

/* A class; with a mark, one that takes all plain letters lets plain tokens pass at once (trie.h). */
static uint32_t set_states(const struct part *part, uint32_t next, uint8_t mark) {
    uint32_t before = state_count, begin = one_character(&grammar.ranges[part->a], part->count, next);
    if (mark && holds_plain(part))
        mark_letters(begin, before, mark);
    return begin;
}

static uint32_t text_states(const struct part *part, uint32_t next) {
    for (uint32_t i = part->count; i-- > 0 && may_build();)
        next = one_character(&grammar.ranges[part->a + i], 1, next);
    return next;
}

static uint32_t rule_states(uint32_t rule, uint32_t next) {
    if (!begins[rule] && !opened[rule])
        opened[rule] = open_state();
    return call_state(begins[rule] ? begins[rule] : opened[rule], next);
}

/* ---- strings with bounds ---- */

/* Whether a part is one character of a class with all plain letters, or in one of its sequences just that. */
static int is_letter(uint32_t index) {
    for (uint32_t level = 0; index && level < 2 * INLINED_DEPTH; level++) {
        const struct part *part = &grammar.parts[index];
        uint32_t group = part->kind == PART_GROUP ? index : NO_PART, found = NO_PART;
        if (part->kind == PART_SET)
            return holds_plain(part);
        if (part->kind == PART_RULE && inlined_size[part->a])
            group = grammar.rules[part->a].body;
        for (uint32_t i = group ? grammar.parts[group].a : NO_PART; i && !found; i = grammar.parts[i].before) {
            const struct part *only = &grammar.parts[grammar.parts[i].a];
            if (grammar.parts[i].a && !only->before && only->least == 1 && only->most == 1 && only->kind != PART_TEXT &&
                (only->kind != PART_SET || holds_plain(only)))
                found = grammar.parts[i].a;
        }
        index = found;
    }
    return 0;
}

/* Whether the next byte that is read from a state is certain to be none of a plain token; of a loop that is still open
 * nothing is. */
static int reads_no_letter(uint32_t state) {
    uint32_t todo[32], count = 0;
    todo[count++] = state;
    for (uint32_t looked = 0; count > 0; looked++) {
        const struct state *found = &states[todo[--count]];
        if (looked == 64 || count + 2 > 32 || found->kind == STATE_RETURN || found->kind == STATE_CALL)
            return 0;
        if (found->kind == STATE_BYTE && reads_plain(&sets[found->a]))
            return 0;
        if (found->kind == STATE_SPLIT) {
            if (found->a == DEAD_STATE && found->b == DEAD_STATE)
                return 0;
            todo[count++] = found->a;
            todo[count++] = found->b;
        }
    }
    return 1;
}

/* ---- frames ---- */

static void begin_frame(uint32_t index, uint32_t next, uint8_t mark) {
    const struct part *part = &grammar.parts[index];
    struct frame *made = &frames[frame_count++];
    if (is_counted(part)) {
        *made = (struct frame){.part = index, .next = next, .state = counted_states(part, next)};
        return;
    }
    *made = (struct frame){.part = index, .next = next, .state = next, .mandatory = part->least};
    made->mark = part->least == 1 && part->most == 1 ? mark : part->most == GBNF_FOR_EVER ? LETTER_OF_LOOP : 0;
    if (part->kind == PART_GROUP)
        made->group = index;
    else if (part->kind == PART_RULE && !part->is_called)
        made->group = grammar.rules[part->a].body;
    if (part->most != GBNF_FOR_EVER) {
        made->optional = part->most - part->least;
        made->is_letter = part->most > 1 && reads_no_letter(next) && is_letter(index);
    } else {
        made->loop = open_state();
        made->mandatory -= part->least > 0; /* the turn of the loop is one of them */
    }
}

/* One copy with nothing after it: for calls. */
static void begin_body(uint32_t part, uint32_t group, int is_of_letters) {
    frames[frame_count++] = (struct frame){.part = part, .group = group, .next = RETURN_STATE, .state = RETURN_STATE,
        .mandatory = 1, .is_body = 1, .is_letter = is_of_letters != 0, .mark = is_of_letters ? LETTER : 0};
}

static void end_copy(struct frame *frame, uint32_t begin) {
    if (frame->loop) {
        close_state(frame->loop, begin, frame->next);
        frame->state = grammar.parts[frame->part].least > 0 ? begin : frame->loop;
        frame->loop = frame->mark = 0;
    } else if (frame->optional > 0) {
        frame->state = split_state(begin, frame->next);
        frame->optional--;
    } else {
        frame->state = begin;
        frame->mandatory--;
    }
}

/* A call of a letter; where it begins is told how many letters may follow. */
static void end_letter(struct frame *frame) {
    end_copy(frame, call_state(letter_begins[frame->part], frame->state));
    frame->letters += frame->letters < PLAIN_LETTERS - 1;
    if (may_build())
        states[frame->state].letters = (uint8_t)frame->letters;
}

static void begin_sequence(struct frame *frame, uint32_t sequence) {
    frame->sequence = sequence;
    frame->item = grammar.parts[sequence].a;
    frame->at = frame->loop ? frame->loop : frame->state;
    frame->is_copying = 1;
}

/* Makes a copy of what holds no other parts, or begins one of a group. */
static void begin_copy(struct frame *frame) {
    const struct part *part = &grammar.parts[frame->part];
    uint32_t next = frame->loop ? frame->loop : frame->state, group = part->kind == PART_GROUP ? frame->part : NO_PART;
    if (frame->is_letter && !frame->is_body) {
        if (letter_begins[frame->part])
            end_letter(frame);
        else
            begin_body(frame->part, part->kind == PART_RULE ? grammar.rules[part->a].body : group, 1);
    } else if (part->is_called && !frame->is_body) {
        if (part->kind == PART_RULE)
            end_copy(frame, rule_states(part->a, next));
        else if (part_begins[frame->part])
            end_copy(frame, call_state(part_begins[frame->part], next));
        else
            begin_body(frame->part, group, 0);
    } else if (frame->group) {
        frame->all = DEAD_STATE;
        begin_sequence(frame, grammar.parts[frame->group].a);
    } else
        end_copy(frame, part->kind == PART_SET ? set_states(part, next, frame->mark) : text_states(part, next));
}

/* The copy goes on with what stands before in its sequence, or in the sequence before it. */
static void go_on(struct frame *frame) {
    if (frame->item) {
        int is_alone = frame->item == grammar.parts[frame->sequence].a && !grammar.parts[frame->item].before;
        begin_frame(frame->item, frame->at, is_alone ? frame->mark : 0);
        return;
    }
    frame->all = split_state(frame->at, frame->all);
    if (grammar.parts[frame->sequence].before) {
        begin_sequence(frame, grammar.parts[frame->sequence].before);
        return;
    }
    frame->is_copying = 0;
    end_copy(frame, frame->all);
}

/* A rule's body, and what it needs of groups that are called. */
static uint32_t body_states(uint32_t body) {
    frame_count = 0;
    begin_body(body, body, 0);
    for (;;) {
        struct frame *frame = &frames[frame_count - 1];
        if (!may_build())
            return DEAD_STATE;
        if (frame->is_copying)
            go_on(frame);
        else if (frame->loop || frame->optional || frame->mandatory)
            begin_copy(frame);
        else {
            uint32_t begin = frame->state;
            if (--frame_count == 0)
                return begin;
            if (frame->is_body)
                (frame->is_letter ? letter_begins : part_begins)[frame->part] = begin;
            else {
                frame[-1].at = begin;
                frame[-1].item = grammar.parts[frame[-1].item].before;
            }
        }
    }
}

int32_t gbnf_states(const uint8_t *text, uint32_t length, uint32_t *start) {
    uint32_t left = COPIED_ALL;
    gbnf_read(text, length);
    if (!gbnf_status)
        gbnf_check();
    if (gbnf_status)
        return gbnf_status;
    uint32_t root = gbnf_root(), count = gbnf_order(root, order);
    clear_bytes(begins, sizeof begins);
    clear_bytes(opened, sizeof opened);
    clear_bytes(part_begins, sizeof part_begins);
    clear_bytes(letter_begins, sizeof letter_begins);
    clear_bytes(inlined_size, sizeof inlined_size);
    clear_bytes(is_needed, sizeof is_needed);
    is_needed[root] = 1;
    for (uint32_t i = 0; i < count; i++)
        measure(order[i], &left);
    for (uint32_t i = 0; i < count && may_build(); i++) {
        uint32_t rule = order[i];
        if (!is_needed[rule])
            continue; /* it is copied wherever it is used */
        begins[rule] = body_states(grammar.rules[rule].body);
        if (opened[rule])
            close_state(opened[rule], begins[rule], DEAD_STATE);
    }
    *start = begins[root];
    return SEALHOST_OK;
}
