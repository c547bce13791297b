#include "references.h"

#include "keywords.h"

/* The part of a value that one step of a JSON pointer names (RFC 6901): ~1 is a slash, ~0 a tilde. */
static uint32_t step(const struct json *json, uint32_t whole, const uint8_t *name, uint32_t length) {
    uint32_t index = 0;
    for (uint32_t i = json->nodes[whole].first; i; i = json->nodes[i].next, index++) {
        const struct json_node *part = &json->nodes[i];
        uint32_t at = 0, read = 0, number = 0;
        if (json->nodes[whole].kind == JSON_ARRAY) {
            while (at < length && at < 4 && name[at] >= '0' && name[at] <= '9')
                number = number * 10 + name[at++] - '0';
            if (at > 0 && at == length && number == index)
                return i;
            continue;
        }
        for (; at < length && read < part->key_length; at++, read++) {
            uint8_t c = name[at];
            if (c == '~' && at + 1 < length)
                c = name[++at] == '1' ? '/' : '~';
            if (c != json->text[part->key + read])
                break;
        }
        if (at == length && read == part->key_length)
            return i;
    }
    return NO_NODE;
}

uint32_t referred(const struct json *json, uint32_t node, uint32_t root) {
    const struct json_node *ref = &json->nodes[node];
    const uint8_t *text = json->text + ref->at;
    uint32_t found = ref->kind == JSON_TEXT && ref->length > 0 && text[0] == '#' ? root : NO_NODE;
    for (uint32_t at = 1, from; found && at < ref->length; at = from) {
        if (text[at] != '/')
            found = NO_NODE;
        for (from = ++at; from < ref->length && text[from] != '/'; from++)
            ;
        found = found ? step(json, found, text + at, from - at) : NO_NODE;
    }
    if (!found)
        refuse("$ref", "# or #/... to a schema within this one");
    return found;
}
