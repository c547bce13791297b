#include "json_text.h"

#include "sealhost_guest.h"

static const uint8_t *from;
static uint32_t end, at;

static void skip_space(void) {
    while (at < end && (from[at] == ' ' || from[at] == '\t' || from[at] == '\n' || from[at] == '\r'))
        at++;
}

static int take(uint8_t byte) {
    skip_space();
    if (at == end || from[at] != byte)
        return 0;
    at++;
    return 1;
}

static int take_word(const char *word) {
    uint32_t i = 0;
    for (; word[i]; i++)
        if (at + i >= end || from[at + i] != (uint8_t)word[i])
            return 0;
    at += i;
    return 1;
}

static int hex4(uint32_t *found) {
    *found = 0;
    for (uint32_t i = 0; i < 4; i++, at++) {
        uint32_t c = at < end ? from[at] : 0, low = c | 0x20;
        if (c >= '0' && c <= '9')
            *found = *found << 4 | (c - '0');
        else if (low >= 'a' && low <= 'f')
            *found = *found << 4 | (low - 'a' + 10);
        else
            return 0;
    }
    return 1;
}

static void put(struct json *json, uint32_t byte) {
    json->text[json->used++] = (uint8_t)byte; /* no more than the text has: escapes are longer than what they mean */
}

static int unicode_escape(struct json *json) {
    uint32_t c, low;
    if (!hex4(&c))
        return 0;
    if (c >= 0xd800 && c < 0xdc00) {
        if (!take_word("\\u") || !hex4(&low) || low < 0xdc00 || low > 0xdfff)
            return 0;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        put(json, 0xf0 | c >> 18);
        put(json, 0x80 | (c >> 12 & 0x3f));
    } else if (c >= 0xdc00 && c <= 0xdfff)
        return 0;
    else if (c >= 0x800)
        put(json, 0xe0 | c >> 12);
    if (c < 0x80)
        put(json, c);
    else {
        put(json, c < 0x800 ? 0xc0 | c >> 6 : 0x80 | (c >> 6 & 0x3f));
        put(json, 0x80 | (c & 0x3f));
    }
    return 1;
}

static int read_string(struct json *json, uint32_t *place, uint32_t *length) {
    static const uint8_t written[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    *place = json->used;
    while (at < end && from[at] != '"') {
        uint8_t c = from[at++];
        if (c < 0x20)
            return 0;
        if (c != '\\') {
            put(json, c);
            continue;
        }
        uint32_t i = 0;
        c = at < end ? from[at++] : 0;
        while (i < 8 && written[i] != c)
            i++;
        if (i < 8)
            put(json, meant[i]);
        else if (c != 'u' || !unicode_escape(json))
            return 0;
    }
    *length = json->used - *place;
    return at++ < end;
}

static uint32_t put_digits(struct json *json) {
    uint32_t count = 0;
    for (; at < end && from[at] >= '0' && from[at] <= '9'; count++)
        put(json, from[at++]);
    return count;
}

static int read_number(struct json *json, struct json_node *node) {
    node->kind = JSON_NUMBER;
    node->at = json->used;
    if (at < end && from[at] == '-')
        put(json, from[at++]);
    uint32_t whole = at, digits = put_digits(json);
    int is_number = digits == 1 || (digits > 1 && from[whole] != '0');
    if (at < end && from[at] == '.') {
        put(json, from[at++]);
        is_number = put_digits(json) > 0 && is_number;
    }
    if (at < end && (from[at] | 0x20) == 'e') {
        put(json, from[at++]);
        if (at < end && (from[at] == '+' || from[at] == '-'))
            put(json, from[at++]);
        is_number = put_digits(json) > 0 && is_number;
    }
    node->length = json->used - node->at;
    return is_number;
}

/* One value up to where its parts begin. */
static int read_value(struct json *json, struct json_node *node) {
    skip_space();
    if (take('{'))
        node->kind = JSON_OBJECT;
    else if (take('['))
        node->kind = JSON_ARRAY;
    else if (take('"')) {
        node->kind = JSON_TEXT;
        return read_string(json, &node->at, &node->length);
    } else if (take_word("null"))
        node->kind = JSON_NULL;
    else if (take_word("true"))
        node->kind = JSON_TRUE;
    else if (take_word("false"))
        node->kind = JSON_FALSE;
    else
        return read_number(json, node);
    return 1;
}

int json_read(struct json *json, const uint8_t *bytes, uint32_t length) {
    uint32_t open[JSON_DEPTH], depth = 0;
    from = bytes;
    end = length;
    at = json->used = 0;
    json->count = 1;
    if (length > JSON_BYTES)
        return 0;
    for (;;) {
        if (json->count == JSON_NODES)
            return 0;
        uint32_t index = json->count++;
        struct json_node *node = &json->nodes[index];
        *node = (struct json_node){0};
        if (depth > 0 && json->nodes[open[depth - 1]].kind == JSON_OBJECT &&
            (!take('"') || !read_string(json, &node->key, &node->key_length) || !take(':')))
            return 0;
        if (!read_value(json, node))
            return 0;
        if (depth > 0) {
            struct json_node *whole = &json->nodes[open[depth - 1]];
            node->before = whole->last;
            *(whole->last ? &json->nodes[whole->last].next : &whole->first) = index;
            whole->last = index;
        }
        if (node->kind >= JSON_ARRAY && !take(node->kind == JSON_ARRAY ? ']' : '}')) {
            if (depth == JSON_DEPTH)
                return 0;
            open[depth++] = index;
            continue;
        }
        while (depth > 0 && take(json->nodes[open[depth - 1]].kind == JSON_ARRAY ? ']' : '}'))
            depth--;
        if (depth == 0)
            break;
        if (!take(','))
            return 0;
    }
    skip_space();
    return at == end;
}

int json_is(const struct json *json, uint32_t place, uint32_t length, const char *text) {
    uint32_t i = 0;
    while (i < length && text[i] && json->text[place + i] == (uint8_t)text[i])
        i++;
    return i == length && !text[i];
}

uint32_t json_member(const struct json *json, uint32_t object, const char *name) {
    if (json->nodes[object].kind != JSON_OBJECT)
        return NO_NODE;
    for (uint32_t i = json->nodes[object].first; i; i = json->nodes[i].next)
        if (json_is(json, json->nodes[i].key, json->nodes[i].key_length, name))
            return i;
    return NO_NODE;
}
