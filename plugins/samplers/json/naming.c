#include "naming.h"

#include "constants.h"
#include "schema.h"
#include "sealhost_guest.h"
#include "states.h"
#include "strings.h"

enum naming naming;
struct limits name_limits;
uint32_t listed[MAX_PROPERTIES], listed_count;

int find_naming(const struct limits *limits) {
    static struct parts given, parts;
    given.count = 0;
    naming = NAMES_ANY;
    for (uint32_t own = 0; own < limits->count; own++)
        if (limits->of[own]->node[KEY_NAMES])
            add_part(&given, limits->of[own]->node[KEY_NAMES], PART_SCHEMA);
    if (given.count == 0)
        return 1;
    naming = NAMES_NONE;
    if (!take_apart(limits->json, &given, &parts, &name_limits) || !(name_limits.named & TYPE_STRING))
        return !is_refused;
    if (are_constants(&parts)) {
        naming = NAMES_LISTED;
        listed_count = find_texts(&parts, &name_limits, listed, MAX_PROPERTIES);
        return listed_count <= MAX_PROPERTIES || refuse("propertyNames", "at most 1024 names");
    }
    for (uint32_t i = 0; i < parts.count; i++)
        if (part_kind(parts.of[i]) == PART_CHOICE)
            return refuse("propertyNames", "limits of texts or a list of names, got a choice between schemas");
    naming = NAMES_ANY;
    for (enum keyword which = KEY_MIN_LENGTH; which <= KEY_FORMAT; which++)
        if (has_keyword(&name_limits, which))
            naming = NAMES_LIMITED;
    return 1;
}

int name_fits(const struct json *json, uint32_t name, uint32_t length) {
    if (naming == NAMES_LIMITED)
        return text_fits(&name_limits, name, length);
    for (uint32_t i = 0; naming == NAMES_LISTED && i < listed_count && may_step(); i++) {
        const struct json_node *node = &json->nodes[listed[i]];
        if (node->length == length && equal_bytes(json->text + node->at, json->text + name, length))
            return 1;
    }
    return naming == NAMES_ANY;
}
