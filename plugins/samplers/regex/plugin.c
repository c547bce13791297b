/* The answer is a text that one pattern matches from its beginning to its end: {"pattern": "..."} (README.md). */
#include "guide.h"
#include "json_text.h"

static struct json settings;

static int32_t compile(uint32_t *start) {
    uint32_t found = json_read(&settings, config, row->config_length) ? json_member(&settings, 1, "pattern") : NO_NODE;
    const struct json_node *pattern = &settings.nodes[found];
    if (found == NO_NODE || pattern->kind != JSON_TEXT)
        return fail(SEALHOST_ERROR_INPUT, "expected a configuration {\"pattern\": \"...\"}, got none");
    *start = regex_states(settings.text + pattern->at, pattern->length, REGEX_CALLS, RETURN_STATE);
    if (!regex_problem)
        return SEALHOST_OK;
    error_begin("pattern: at byte ");
    error_number(regex_problem_at);
    error_text(" expected ");
    error_text(regex_problem);
    return SEALHOST_ERROR_UNSUPPORTED;
}
