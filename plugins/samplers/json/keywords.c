#include "keywords.h"

#include "decimal.h"
#include "formats.h"
#include "sealhost_guest.h"

int is_refused;

static struct keywords known[JSON_NODES]; /* by schema */
static uint8_t is_known[JSON_NODES];

static const char *const names[KEYWORDS] = {
    "$ref", "allOf", "anyOf", "oneOf", "const", "enum", "type", "properties", "patternProperties", "required", "propertyNames",
    "additionalProperties", "minProperties", "maxProperties", "items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
};
static const char *const notes[] = { /* words for readers, and where $ref points */
    "title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "readOnly",
    "writeOnly", "$anchor", "contentEncoding", "contentMediaType", "contentSchema", "$vocabulary",
    "id", /* of draft 4 */
    "discriminator", "example", "externalDocs", "xml", /* of OpenAPI */
};
static const char *const type_names[] = {"null", "boolean", "string", "integer", "number", "array", "object"};

const char *keyword_name(enum keyword which) {
    return names[which];
}

int refuse(const char *keyword, const char *expected) {
    if (is_refused)
        return 0;
    is_refused = 1;
    error_begin("schema: ");
    error_text(keyword);
    error_text(": expected ");
    error_text(expected);
    return 0;
}

/* ---- one schema ---- */

static int refuse_keyword(const struct json *json, const struct json_node *node) {
    refuse("keyword", "one of the subset in the guest's README, got ");
    error_bytes(json->text + node->key, node->key_length > 64 ? 64 : node->key_length);
    return 0;
}

static int is_named(const struct json *json, const struct json_node *node, const char *name) {
    return json_is(json, node->key, node->key_length, name);
}

/* Whether a member of a schema says nothing about values: words for readers, formats that are unknown, items that may repeat,
 * draft 4's bounds that are not exclusive. */
static int is_note(const struct json *json, uint32_t index) {
    const struct json_node *node = &json->nodes[index];
    for (uint32_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (is_named(json, node, notes[i]))
            return 1;
    if (node->key_length > 2 && json->text[node->key] == 'x' && json->text[node->key + 1] == '-')
        return 1;
    if (is_named(json, node, "format"))
        return node->kind == JSON_TEXT && format_named(json, index) == NO_FORMAT;
    return node->kind == JSON_FALSE && (is_named(json, node, "uniqueItems") || is_named(json, node, "exclusiveMinimum") ||
                                        is_named(json, node, "exclusiveMaximum"));
}

/* Whether a keyword's value is of its kind, where that is one kind. */
static int check_kind(const struct json *json, enum keyword which, const struct json_node *node) {
    switch (which) {
    case KEY_ALL_OF: case KEY_ANY_OF: case KEY_ONE_OF:
        return (node->kind == JSON_ARRAY && node->first) || refuse(names[which], "a list of schemas");
    case KEY_PREFIX_ITEMS:
        return node->kind == JSON_ARRAY || refuse(names[which], "a list of schemas");
    case KEY_ENUM:
        return node->kind == JSON_ARRAY || refuse(names[which], "a list of values");
    case KEY_PROPERTIES: case KEY_PATTERN_PROPERTIES:
        return node->kind == JSON_OBJECT || refuse(names[which], "an object");
    case KEY_REQUIRED:
        for (uint32_t i = node->first; node->kind == JSON_ARRAY && i; i = json->nodes[i].next)
            if (json->nodes[i].kind != JSON_TEXT)
                return refuse(names[which], "a list of names");
        return node->kind == JSON_ARRAY || refuse(names[which], "a list of names");
    case KEY_UNIQUE_ITEMS:
        return node->kind == JSON_TRUE || refuse(names[which], "true or false");
    case KEY_PATTERN: case KEY_FORMAT:
        return node->kind == JSON_TEXT || refuse(names[which], "a text");
    default:
        return 1;
    }
}

static uint32_t type_named(const struct json *json, const struct json_node *node) {
    for (uint32_t i = 0; node->kind == JSON_TEXT && i < 7; i++)
        if (json_is(json, node->at, node->length, type_names[i]))
            return 1u << i == TYPE_NUMBER ? TYPE_NUMBER | TYPE_INTEGER : 1u << i;
    return (uint32_t)refuse("type", "null, boolean, string, integer, number, array or object, or a list of these");
}

static uint32_t subject_of(enum keyword which) {
    return which <= KEY_TYPE ? 0
           : which <= KEY_MAX_PROPERTIES ? TYPE_OBJECT
           : which <= KEY_UNIQUE_ITEMS ? TYPE_ARRAY
           : which <= KEY_FORMAT ? TYPE_STRING
                                 : TYPE_NUMBER | TYPE_INTEGER;
}

static int find_types(const struct json *json, struct keywords *found) {
    const struct json_node *type = &json->nodes[found->node[KEY_TYPE]];
    found->named = found->subjects = 0;
    if (!found->node[KEY_TYPE])
        found->named = TYPE_ALL;
    else if (type->kind != JSON_ARRAY)
        found->named = type_named(json, type);
    else if (!type->first)
        return refuse("type", "at least one");
    else
        for (uint32_t i = type->first; i && !is_refused; i = json->nodes[i].next)
            found->named |= type_named(json, &json->nodes[i]);
    for (uint32_t i = 0; i < KEYWORDS; i++)
        if (found->node[i])
            found->subjects |= subject_of((enum keyword)i);
    return !is_refused;
}

/* Before draft 2020-12, `items` was what `prefixItems` is where it was a list, with `additionalItems` for the others. */
static int settle_items(const struct json *json, struct keywords *found) {
    if (found->node[KEY_ITEMS] && json->nodes[found->node[KEY_ITEMS]].kind == JSON_ARRAY) {
        if (found->node[KEY_PREFIX_ITEMS])
            return refuse("items", "a schema beside prefixItems, got a list");
        found->node[KEY_PREFIX_ITEMS] = found->node[KEY_ITEMS];
        found->node[KEY_ITEMS] = found->node[KEY_ADDITIONAL_ITEMS];
    }
    found->node[KEY_ADDITIONAL_ITEMS] = NO_NODE; /* without such a list it says nothing */
    return 1;
}

static int find_keywords(const struct json *json, uint32_t schema, struct keywords *found) {
    clear_bytes(found, sizeof *found);
    for (uint32_t i = json->nodes[schema].first; i; i = json->nodes[i].next) {
        uint32_t which = 0;
        if (is_note(json, i))
            continue;
        while (which < KEYWORDS && !is_named(json, &json->nodes[i], names[which]))
            which++;
        if (which == KEYWORDS)
            return refuse_keyword(json, &json->nodes[i]);
        if (!check_kind(json, (enum keyword)which, &json->nodes[i]))
            return 0;
        found->node[which] = i;
    }
    return settle_items(json, found) && find_types(json, found);
}

void keywords_clear(void) {
    clear_bytes(is_known, sizeof is_known);
}

const struct keywords *keywords_of(const struct json *json, uint32_t schema) {
    if (!is_known[schema] && !find_keywords(json, schema, &known[schema]))
        return 0;
    is_known[schema] = 1;
    return &known[schema];
}

int has_own(const struct keywords *found) {
    for (uint32_t i = KEY_TYPE; i < KEYWORDS; i++)
        if (found->node[i])
            return 1;
    return 0;
}

/* ---- several ---- */

void add_limits(struct limits *limits, const struct keywords *found) {
    limits->named &= found->named;
    limits->subjects |= found->subjects;
    limits->of[limits->count++] = found;
}

uint32_t types_of(const struct limits *limits) {
    return has_keyword(limits, KEY_TYPE) || !limits->subjects ? limits->named : limits->subjects;
}

int has_keyword(const struct limits *limits, enum keyword which) {
    for (uint32_t i = 0; i < limits->count; i++)
        if (limits->of[i]->node[which])
            return 1;
    return 0;
}

/* A keyword's whole number. */
static int whole(const struct json *json, uint32_t node, enum keyword which, uint32_t most, uint32_t *value) {
    struct decimal number;
    int is_itself;
    if (!read_bound(json, node, 1, &number, &is_itself) || number.fraction || number.is_negative)
        return refuse(names[which], "a whole number, 0 or more");
    if (which == KEY_MAX_LENGTH && number.whole > most)
        number.whole = most; /* which no answer reaches */
    if (number.whole > most) {
        refuse(names[which], "at most ");
        error_number(most);
        return 0;
    }
    *value = (uint32_t)number.whole;
    return 1;
}

int largest(const struct limits *limits, enum keyword which, uint32_t most, uint32_t *value) {
    uint32_t number;
    for (uint32_t i = 0; i < limits->count; i++) {
        if (!limits->of[i]->node[which])
            continue;
        if (!whole(limits->json, limits->of[i]->node[which], which, most, &number))
            return 0;
        *value = number > *value ? number : *value;
    }
    return 1;
}

int smallest(const struct limits *limits, enum keyword which, uint32_t most, uint32_t *value) {
    uint32_t number;
    for (uint32_t i = 0; i < limits->count; i++) {
        if (!limits->of[i]->node[which])
            continue;
        if (!whole(limits->json, limits->of[i]->node[which], which, most, &number))
            return 0;
        *value = number < *value ? number : *value;
    }
    return 1;
}

uint32_t type_of(const struct json *json, uint32_t index) {
    static const uint8_t types[] = {TYPE_NULL, TYPE_BOOLEAN, TYPE_BOOLEAN, TYPE_NUMBER, TYPE_STRING, TYPE_ARRAY, TYPE_OBJECT};
    const struct json_node *node = &json->nodes[index];
    struct decimal value;
    if (node->kind != JSON_NUMBER)
        return types[node->kind];
    if (read_decimal(json, index, &value))
        return value.fraction ? TYPE_NUMBER : TYPE_NUMBER | TYPE_INTEGER;
    for (uint32_t i = 0; i < node->length; i++)
        if (json->text[node->at + i] == '.' || (json->text[node->at + i] | 0x20) == 'e')
            return TYPE_NUMBER;
    return TYPE_NUMBER | TYPE_INTEGER;
}
