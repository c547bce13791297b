#include "matcher.h"

#include "sealhost_guest.h"

static uint16_t next[MAX_STATES][256]; /* 0: none yet, or the start */
static uint16_t longest[MAX_STATES];   /* bytes of the longest banned text that ends here */
static uint16_t failure[MAX_STATES], queue[MAX_STATES];
static uint32_t states;
static int folds;

static uint8_t folded(uint8_t byte) {
    return folds && byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

static uint32_t new_state(void) {
    clear_bytes(next[states], sizeof next[states]);
    longest[states] = 0;
    return states++;
}

void matcher_begin(int ignores_case) {
    folds = ignores_case;
    states = 0;
    new_state();
}

int matcher_add(const uint8_t *text, uint32_t length) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < length; i++) {
        uint8_t byte = folded(text[i]);
        if (!next[at][byte]) {
            if (states == MAX_STATES)
                return 0;
            uint32_t made = new_state();
            next[at][byte] = (uint16_t)made;
        }
        at = next[at][byte];
    }
    longest[at] = (uint16_t)length;
    return 1;
}

/* Breadth first: a state's failure, the state of its longest proper suffix, is finished before it. */
void matcher_finish(void) {
    uint32_t first = 0, last = 0;
    failure[0] = 0;
    for (uint32_t byte = 0; byte < 256; byte++)
        if (next[0][byte]) {
            failure[next[0][byte]] = 0;
            queue[last++] = next[0][byte];
        }
    while (first < last) {
        uint32_t at = queue[first++], suffix = failure[at];
        if (!longest[at])
            longest[at] = longest[suffix];
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t to = next[at][byte];
            if (!to) {
                next[at][byte] = next[suffix][byte];
                continue;
            }
            failure[to] = next[suffix][byte];
            queue[last++] = (uint16_t)to;
        }
    }
}

struct match matcher_read(uint32_t state, const uint8_t *bytes, uint32_t count) {
    struct match found = {state, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        found.state = next[found.state][folded(bytes[i])];
        uint32_t length = longest[found.state];
        if (length && !found.length) {
            found.length = length;
            found.before = length > i + 1 ? length - i - 1 : 0;
        }
    }
    return found;
}

int matcher_has_texts(void) {
    return states > 1;
}
