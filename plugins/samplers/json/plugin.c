/* The answer is JSON that fits a schema: {"schema": {...}}, or the schema as a text, which keeps its order; or it is a text
 * of a grammar: {"grammar": "root ::= ..."} (README.md). */
#include "gbnf.h"
#include "guide.h"
#include "json_text.h"
#include "schema.h"

static struct json settings, inner;

static int32_t compile(uint32_t *start) {
    static const char *expected =
        "expected a configuration {\"schema\": ...} or {\"grammar\": \"root ::= ...\"}, of at most 8192 values, 64 deep, got another";
    int is_read = json_read(&settings, config, row->config_length);
    uint32_t schema = is_read ? json_member(&settings, 1, "schema") : NO_NODE;
    uint32_t grammar = is_read ? json_member(&settings, 1, "grammar") : NO_NODE;
    if (schema != NO_NODE && grammar != NO_NODE)
        return fail(SEALHOST_ERROR_INPUT, "expected a configuration with either schema or grammar, got both");
    if (grammar != NO_NODE && settings.nodes[grammar].kind != JSON_TEXT)
        return fail(SEALHOST_ERROR_INPUT, "expected the grammar as a text, got another value");
    if (grammar != NO_NODE)
        return gbnf_states(settings.text + settings.nodes[grammar].at, settings.nodes[grammar].length, start);
    if (schema == NO_NODE)
        return fail(SEALHOST_ERROR_INPUT, expected);
    if (settings.nodes[schema].kind != JSON_TEXT)
        return schema_states(&settings, schema, start);
    if (!json_read(&inner, settings.text + settings.nodes[schema].at, settings.nodes[schema].length))
        return fail(SEALHOST_ERROR_INPUT, expected);
    return schema_states(&inner, 1, start);
}
