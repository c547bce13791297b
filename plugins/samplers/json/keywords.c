#include "keywords.h"

#include "sealhost_guest.h"

int is_refused;

static const char *const names[KEYWORDS] = {
    "$ref", "const", "enum", "anyOf", "oneOf", "allOf", "type", "properties", "required", "additionalProperties", "items",
    "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum",
};
static const uint8_t subjects[KEYWORDS] = {
    0, 0, 0, 0, 0, 0, 0, TYPE_OBJECT, TYPE_OBJECT, TYPE_OBJECT, TYPE_ARRAY, TYPE_ARRAY, TYPE_ARRAY, TYPE_ARRAY, TYPE_STRING,
    TYPE_STRING, TYPE_STRING, TYPE_NUMBER, TYPE_NUMBER, TYPE_NUMBER, TYPE_NUMBER,
};
static const char *const notes[] = { /* words for readers, and where $ref points */
    "title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "readOnly",
    "writeOnly", "format", "discriminator", "$anchor", "contentEncoding", "contentMediaType",
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

static int refuse_keyword(const struct json *json, const struct json_node *node) {
    refuse("keyword", "one of the subset in the guest's README, got ");
    error_bytes(json->text + node->key, node->key_length > 64 ? 64 : node->key_length);
    return 0;
}

static int is_note(const struct json *json, const struct json_node *node) {
    for (uint32_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (json_is(json, node->key, node->key_length, notes[i]))
            return 1;
    /* items may repeat, which is what false says */
    return json_is(json, node->key, node->key_length, "uniqueItems") && node->kind == JSON_FALSE;
}

static uint32_t type_named(const struct json *json, const struct json_node *node) {
    for (uint32_t i = 0; node->kind == JSON_TEXT && i < 7; i++)
        if (json_is(json, node->at, node->length, type_names[i]))
            return 1u << i;
    return (uint32_t)refuse("type", "null, boolean, string, integer, number, array or object, or a list of these");
}

static int find_types(const struct json *json, struct keywords *found) {
    const struct json_node *type = &json->nodes[found->node[KEY_TYPE]];
    if (!found->node[KEY_TYPE]) {
        for (uint32_t i = 0; i < KEYWORDS; i++)
            if (found->node[i])
                found->types |= subjects[i];
        found->types = found->types ? found->types : TYPE_ALL;
    } else if (type->kind != JSON_ARRAY)
        found->types = type_named(json, type);
    else
        for (uint32_t i = type->first; i && !is_refused; i = json->nodes[i].next)
            found->types |= type_named(json, &json->nodes[i]);
    return !is_refused && (found->types ? 1 : refuse("type", "at least one"));
}

/* What speaks for the whole value has no limits but `type` beside it: the guest does not intersect schemas. */
static int check_alone(const struct keywords *found) {
    for (uint32_t i = KEY_REF; i <= KEY_ALL_OF; i++)
        for (uint32_t j = 0; found->node[i] && j < KEYWORDS; j++)
            if (j != i && found->node[j] && j != KEY_TYPE) {
                refuse(names[i], "no other keyword that limits the value beside it, got ");
                error_text(names[j]);
                return 0;
            }
    return 1;
}

int find_keywords(const struct json *json, uint32_t schema, struct keywords *found) {
    *found = (struct keywords){.is_empty = 1};
    for (uint32_t i = json->nodes[schema].first; i; i = json->nodes[i].next) {
        const struct json_node *node = &json->nodes[i];
        uint32_t which = 0;
        if (is_note(json, node))
            continue;
        while (which < KEYWORDS && !json_is(json, node->key, node->key_length, names[which]))
            which++;
        if (which == KEYWORDS)
            return refuse_keyword(json, node);
        found->node[which] = i;
        found->is_empty = 0;
    }
    return check_alone(found) && find_types(json, found);
}

uint32_t type_of(const struct json *json, uint32_t index) {
    static const uint8_t types[] = {TYPE_NULL, TYPE_BOOLEAN, TYPE_BOOLEAN, TYPE_NUMBER, TYPE_STRING, TYPE_ARRAY, TYPE_OBJECT};
    const struct json_node *node = &json->nodes[index];
    if (node->kind != JSON_NUMBER)
        return types[node->kind];
    for (uint32_t i = 0; i < node->length; i++)
        if (json->text[node->at + i] == '.' || (json->text[node->at + i] | 0x20) == 'e')
            return TYPE_NUMBER;
    return TYPE_NUMBER | TYPE_INTEGER;
}

/* A whole number of at most 15 digits, whose fraction is 0. */
static int read_whole(const struct json *json, uint32_t index, int64_t *value) {
    const struct json_node *node = &json->nodes[index];
    uint32_t i = 0, digits = 0;
    int is_negative = node->kind == JSON_NUMBER && json->text[node->at] == '-';
    *value = 0;
    if (node->kind != JSON_NUMBER)
        return 0;
    for (i = (uint32_t)is_negative; i < node->length && json->text[node->at + i] != '.'; i++, digits++) {
        uint8_t c = json->text[node->at + i];
        if (c < '0' || c > '9')
            return 0;
        *value = *value * 10 + (c - '0');
    }
    while (++i < node->length)
        if (json->text[node->at + i] != '0')
            return 0;
    if (is_negative)
        *value = -*value;
    return digits > 0 && digits < MAX_DIGITS;
}

int whole_limit(const struct json *json, const struct keywords *found, enum keyword which, uint32_t most, uint32_t *value) {
    int64_t number;
    if (!found->node[which])
        return 1;
    if (!read_whole(json, found->node[which], &number) || number < 0)
        return refuse(names[which], "a whole number, 0 or more");
    if (number > (int64_t)most) {
        refuse(names[which], "at most ");
        error_number(most);
        return 0;
    }
    *value = (uint32_t)number;
    return 1;
}

int number_limits(const struct json *json, const struct keywords *found, struct limits *limits) {
    static const char *expected = "a whole number of at most 15 digits";
    int64_t value;
    *limits = (struct limits){.low = -MOST_WHOLE, .high = MOST_WHOLE};
    for (uint32_t i = KEY_MINIMUM; i <= KEY_EXCLUSIVE_MAXIMUM; i++) {
        if (!found->node[i])
            continue;
        if (!read_whole(json, found->node[i], &value))
            return refuse(names[i], expected);
        int is_exclusive = i >= KEY_EXCLUSIVE_MINIMUM;
        if (i == KEY_MINIMUM || i == KEY_EXCLUSIVE_MINIMUM) {
            if (!limits->has_low || value > limits->low || (value == limits->low && is_exclusive))
                limits->is_exclusive_low = is_exclusive, limits->low = value;
            limits->has_low = 1;
        } else {
            if (!limits->has_high || value < limits->high || (value == limits->high && is_exclusive))
                limits->is_exclusive_high = is_exclusive, limits->high = value;
            limits->has_high = 1;
        }
    }
    return 1;
}
