/* Draws by the standard chain, and takes back what would complete a banned text: README.md. */
#define SEALHOST_ROWS 4u
#define SEALHOST_BIASES 4096u
#define SEALHOST_MAX_BACKTRACK 16u
#define SEALHOST_VOCABULARY (12u << 20)
#define SEALHOST_SLOT_STATE
#include "adjust.h"
#include "chain.h"
#include "json.h"
#include "matcher.h"
#include "sealhost_sampler.h"
#include "slot.h"

_Static_assert(SEALHOST_VOCAB == VOCAB_CAPACITY && SEALHOST_HISTORY == HISTORY_CAPACITY, "the chain's arrays fit");

#define MAX_TEXT 1024u /* bytes of one banned text: 256 letters, as the schema says */
#define FEW_DRAWS 8u   /* in one step before all ids that would complete a banned text are looked for at once */

static struct slot slots[SEALHOST_ROWS];
static uint32_t always[VOCAB_CAPACITY]; /* ids whose own text holds a banned one */
static uint32_t always_count;
static int settings_are_read;

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    settings_are_read = 0;
    return SEALHOST_OK;
}

static void began(uint32_t slot) {
    settings_are_read = 0; /* a new choice that is no fork is a new request */
    slot_begin(&slots[slot], row->prompt_length);
}

static void forked(uint32_t slot, uint32_t parent) {
    if (parent < SEALHOST_ROWS && parent != slot)
        slot_copy(&slots[slot], &slots[parent], row->prompt_length);
}

static void ended(uint32_t slot) {
    slots[slot].ban_count = 0;
}

/* Ids beyond the vocabulary spell nothing. */
static struct match read_id(uint32_t state, uint32_t id) {
    uint32_t length = 0;
    const uint8_t *text = id < tokens.table.count ? token_text(id, &length) : tokens.bytes;
    return matcher_read(state, text, length);
}

static void read_texts(struct json *in) {
    static uint8_t text[MAX_TEXT];
    for (json_open(in, '['); json_next(in, ']');) {
        uint32_t length = json_string(in, text, MAX_TEXT);
        in->bad |= !length || !matcher_add(text, length);
    }
}

/* Names come sorted: "banned" before "ignore_case", which the matcher has to know first. */
static int asks_to_ignore_case(void) {
    static const char name[] = "\"ignore_case\":true}";
    uint32_t length = sizeof name - 1;
    return row->config_length > length && equal_bytes(config + row->config_length - length, (const uint8_t *)name, length);
}

static int32_t read_settings(void) {
    struct json in = {config, config + row->config_length, 0, 0};
    char name[JSON_NAME] = "";
    matcher_begin(asks_to_ignore_case());
    if (row->config_length)
        json_open(&in, '{');
    while (row->config_length && json_next(&in, '}')) {
        json_name(&in, name);
        if (json_is(name, "banned"))
            read_texts(&in);
        else if (json_is(name, "ignore_case"))
            json_boolean(&in);
        else
            in.bad = 1;
    }
    if (!json_ends(&in)) {
        settings_are_read = 0;
        return fail(SEALHOST_ERROR_CONFIG, "sampler_config: expected banned, texts of 8,191 bytes in all, and ignore_case");
    }
    matcher_finish();
    always_count = 0;
    uint32_t count = row->vocab_size < tokens.table.count ? row->vocab_size : tokens.table.count;
    for (uint32_t id = 0; id < count && matcher_has_texts(); id++)
        if (read_id(0, id).length)
            always[always_count++] = id;
    settings_are_read = 1;
    return SEALHOST_OK;
}

/* ---- one step --------------------------------------------------------------------------------------------------- */

/* Follows the history to its end; the prompt is not what the model says. Returns the state there. */
static uint32_t follow(struct slot *slot) {
    uint32_t standing = slot_compare(slot, history, row->prompt_length, row->history_length);
    for (uint32_t i = standing; i < row->history_length; i++) {
        uint32_t before = i > row->prompt_length ? slot->states[i - 1] : 0;
        slot->ids[i] = history[i];
        slot->states[i] = (uint16_t)read_id(before, history[i]).state;
    }
    slot->known = row->history_length;
    uint32_t room = row->backtrack_room < row->history_length ? row->backtrack_room : row->history_length;
    slot_tidy(slot, row->history_length - room, standing);
    return row->history_length > row->prompt_length ? slot->states[row->history_length - 1] : 0;
}

static void forbid(struct row *chain_row, uint32_t id) {
    struct adjusted *entry = adjust_entry(chain_row, id);
    if (entry)
        entry->value = MINUS_INFINITY;
}

static void forbid_completing(struct row *chain_row, uint32_t state) {
    for (uint32_t id = 0; id < row->vocab_size && id < tokens.table.count; id++)
        if (read_id(state, id).length)
            forbid(chain_row, id);
}

/* How many ids of the history hold the `before` last bytes of it. */
static uint32_t ids_of(uint32_t before) {
    uint32_t count = 0, length;
    while (before && count < row->history_length - row->prompt_length) {
        uint32_t id = history[row->history_length - ++count];
        if (id < tokens.table.count) {
            token_text(id, &length);
            before -= length < before ? length : before;
        }
    }
    return count;
}

/* Goes back to the id in which the banned text begins, or as far as may be, and forbids it there. 0: it cannot. */
static uint32_t go_back(struct slot *slot, uint32_t before) {
    uint32_t off = ids_of(before);
    off = off < row->backtrack_room ? off : row->backtrack_room;
    uint32_t position = row->history_length - off;
    return off && slot_ban(slot, position, history[position]) ? off : 0;
}

static int32_t draw(struct row *chain_row, struct slot *slot, uint32_t state) {
    for (uint32_t draws = 1;; draws++) {
        struct candidate best = row_best(chain_row);
        if (best.logit == MINUS_INFINITY)
            return fail(SEALHOST_ERROR_EMPTY, "step: no token can be drawn: all are masked, or complete a banned text");
        uint32_t token = chain_token(chain_row, row, best);
        struct match found = read_id(state, token);
        if (!found.length)
            return answer(SEALHOST_TOKEN, token);
        uint32_t off = found.before ? go_back(slot, found.before) : 0;
        if (off)
            return backtrack(off, 0);
        forbid(chain_row, token);
        if (draws == FEW_DRAWS)
            forbid_completing(chain_row, state);
    }
}

static int32_t sample(void) {
    int32_t status = chain_check(row);
    if (!status && !settings_are_read)
        status = read_settings();
    if (status)
        return status;
    struct slot *slot = &slots[row->slot];
    uint32_t state = follow(slot);
    struct row chain_row = {.logits = logits, .count = row->vocab_size};
    struct request request = {row, history, bias};
    status = adjust(&chain_row, &request);
    for (uint32_t i = 0; i < always_count && !status; i++)
        forbid(&chain_row, always[i]);
    for (uint32_t i = 0; i < slot->ban_count && !status; i++)
        if (slot->bans[i].position == row->history_length)
            forbid(&chain_row, slot->bans[i].id);
    if (!status)
        status = draw(&chain_row, slot, state);
    adjust_undo(&chain_row);
    return status;
}
