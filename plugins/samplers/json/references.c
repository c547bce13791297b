/* A $ref is resolved as JSON Schema 2020-12, core, chapter 8 says, with one thing less: what an $id is called is compared as it
 * is written, and not made absolute by the $id around it. */
#include "references.h"

#include "keywords.h"
#include "sealhost_guest.h"
#include "states.h"

static int hex(uint8_t c, uint32_t *value) {
    uint32_t low = c | 0x20u, digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 16;
    *value = *value * 16 + digit;
    return digit < 16;
}

/* The next byte that a step of a pointer means: %XX is a byte (RFC 3986), ~1 a slash and ~0 a tilde (RFC 6901). */
static uint8_t next_byte(const uint8_t *name, uint32_t length, uint32_t *at) {
    uint8_t c = name[(*at)++];
    uint32_t value = 0;
    if (c == '%' && *at + 2 <= length && hex(name[*at], &value) && hex(name[*at + 1], &value)) {
        c = (uint8_t)value;
        *at += 2;
    }
    if (c == '~' && *at < length)
        c = name[(*at)++] == '1' ? '/' : '~';
    return c;
}

/* The part of a value that one step of a JSON pointer names. */
static uint32_t step(const struct json *json, uint32_t whole, const uint8_t *name, uint32_t length) {
    uint32_t index = 0;
    for (uint32_t i = json->nodes[whole].first; i && may_step(); i = json->nodes[i].next, index++) {
        const struct json_node *part = &json->nodes[i];
        uint32_t at = 0, read = 0, number = 0;
        if (json->nodes[whole].kind == JSON_ARRAY) {
            while (at < length && at < 4 && name[at] >= '0' && name[at] <= '9')
                number = number * 10 + name[at++] - '0';
            if (at > 0 && at == length && number == index)
                return i;
            continue;
        }
        while (at < length && read < part->key_length && next_byte(name, length, &at) == json->text[part->key + read])
            read++;
        if (at == length && read == part->key_length)
            return i;
    }
    return NO_NODE;
}

static uint32_t pointed(const struct json *json, uint32_t from, const uint8_t *text, uint32_t length) {
    for (uint32_t at = 0, end; from && at < length; at = end) {
        for (end = ++at; end < length && text[end] != '/'; end++)
            ;
        from = step(json, from, text + at, end - at);
    }
    return from;
}

/* Whether a schema has a text as its $id, of which an empty fragment says nothing, or as its $anchor. */
static int is_called(const struct json *json, uint32_t schema, const char *keyword, const uint8_t *text, uint32_t length) {
    const struct json_node *name = &json->nodes[json_member(json, schema, keyword)];
    uint32_t named = name->kind == JSON_TEXT ? name->length : 0;
    if (named > 0 && json->text[name->at + named - 1] == '#')
        named--;
    return length > 0 && named == length && equal_bytes(json->text + name->at, text, length);
}

static uint32_t called(const struct json *json, uint32_t root, const char *keyword, const uint8_t *text, uint32_t length) {
    for (uint32_t i = root; i < json->count && may_build(); i++)
        if (is_called(json, i, keyword, text, length))
            return i;
    return NO_NODE;
}

/* The schema with an $id that a node is in, which is where its pointers begin. Parts follow their whole in the list of nodes. */
static uint32_t resource_of(const struct json *json, uint32_t root, uint32_t node) {
    uint32_t found = root;
    for (uint32_t at = root, part; at != node; at = part) {
        const struct json_node *id = &json->nodes[json_member(json, at, "$id")];
        if (id->kind == JSON_TEXT && id->length > 0 && json->text[id->at] != '#')
            found = at;
        part = json->nodes[at].first;
        while (json->nodes[part].next && json->nodes[part].next <= node && may_step())
            part = json->nodes[part].next;
        if (!part)
            break;
    }
    return found;
}

uint32_t referred(const struct json *json, uint32_t node, uint32_t root) {
    const struct json_node *ref = &json->nodes[node];
    const uint8_t *text = json->text + ref->at;
    uint32_t hash = 0, found = NO_NODE;
    if (ref->kind == JSON_TEXT && ref->length > 0) {
        while (hash < ref->length && text[hash] != '#')
            hash++;
        found = hash == 0 ? resource_of(json, root, node) : called(json, root, "$id", text, hash);
        uint32_t after = hash + 1, length = ref->length > after ? ref->length - after : 0;
        if (found && length > 0)
            found = text[after] == '/' ? pointed(json, found, text + after, length) : called(json, found, "$anchor", text + after, length);
    }
    if (!found)
        refuse("$ref", "#, #/..., #anchor or the $id of a schema within this one");
    return found;
}
