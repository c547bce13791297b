#include "conditions.h"

/* Where what begins at `at` ends: before a | or ) that is in no group or class within it, or with the pattern. */
static uint32_t end_of(const uint8_t *pattern, uint32_t length, uint32_t at, int stops_at_choice) {
    uint32_t depth = 0;
    for (int in_class = 0; at < length; at++) {
        uint8_t c = pattern[at];
        if (c == '\\')
            at++;
        else if (in_class)
            in_class = c != ']';
        else if (c == '[')
            in_class = 1;
        else if (c == '(')
            depth++;
        else if (depth == 0 && (c == ')' || (c == '|' && stops_at_choice)))
            return at;
        else if (c == ')')
            depth--;
    }
    return length;
}

int take_condition(const uint8_t *pattern, uint32_t length, uint32_t *at, struct condition *found) {
    uint32_t from = *at + 3;
    if (from > length || pattern[*at] != '(' || pattern[*at + 1] != '?' || (pattern[*at + 2] != '=' && pattern[*at + 2] != '!'))
        return 0;
    uint32_t end = end_of(pattern, length, from, 0);
    if (end == length || end_of(pattern, length, end + 1, 1) < length)
        return 0;
    *found = (struct condition){from, end - from, pattern[*at + 2] == '!'};
    *at = end + 1;
    return 1;
}
