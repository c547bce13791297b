/* The answer is JSON that fits a schema: {"schema": {...}}, or the schema as a text, which keeps its order (README.md). */
#include "guide.h"
#include "json_text.h"
#include "schema.h"

static struct json settings, inner;

static int32_t compile(uint32_t *start) {
    static const char *expected = "expected a configuration {\"schema\": ...} of at most 8192 values, 64 deep, got another";
    uint32_t schema = json_read(&settings, config, row->config_length) ? json_member(&settings, 1, "schema") : NO_NODE;
    if (schema == NO_NODE)
        return fail(SEALHOST_ERROR_INPUT, expected);
    if (settings.nodes[schema].kind != JSON_TEXT)
        return schema_states(&settings, schema, start);
    if (!json_read(&inner, settings.text + settings.nodes[schema].at, settings.nodes[schema].length))
        return fail(SEALHOST_ERROR_INPUT, expected);
    return schema_states(&inner, 1, start);
}
