#include "conjunction.h"

#include "sealhost_guest.h"
#include "states.h"

#define BUCKETS 4096u

static struct {
    uint32_t first, count, chain;
} conjunctions[MAX_CONJUNCTIONS];
static uint32_t all_parts[ALL_PARTS], buckets[BUCKETS], count, used;

void add_part(struct parts *parts, uint32_t node, enum part_kind kind) {
    for (uint32_t i = 0; i < parts->count && may_step(); i++) {
        if (part_node(parts->of[i]) != node)
            continue;
        if (part_kind(parts->of[i]) == kind || (part_kind(parts->of[i]) == PART_SCHEMA && kind == PART_OWN))
            return;
        if (part_kind(parts->of[i]) == PART_OWN && kind == PART_SCHEMA) {
            parts->of[i] = node * 8 + PART_SCHEMA;
            return;
        }
    }
    if (parts->count == MAX_PARTS) {
        build_problem = "schemas that one value has to fit";
        return;
    }
    parts->of[parts->count++] = node * 8 + kind;
}

void conjunctions_clear(void) {
    clear_bytes(buckets, sizeof buckets);
    count = 1;
    used = 0;
}

static int same_parts(const uint32_t *of, const struct parts *parts) {
    uint32_t i = 0;
    while (i < parts->count && of[i] == parts->of[i] && may_step())
        i++;
    return i == parts->count;
}

uint32_t conjunction_of(const struct parts *parts) {
    uint32_t hash = parts->count;
    if (!may_build())
        return 0;
    for (uint32_t i = 0; i < parts->count && may_step(); i++)
        hash = (hash ^ parts->of[i]) * 0x9e3779b1u ^ hash >> 15;
    uint32_t *bucket = &buckets[(hash >> 8) % BUCKETS];
    for (uint32_t i = *bucket; i && may_step(); i = conjunctions[i].chain)
        if (conjunctions[i].count == parts->count &&
            same_parts(&all_parts[conjunctions[i].first], parts))
            return i;
    if (count == MAX_CONJUNCTIONS || used + parts->count > ALL_PARTS) {
        build_problem = "combinations of schemas";
        return 0;
    }
    conjunctions[count].first = used;
    conjunctions[count].count = parts->count;
    conjunctions[count].chain = *bucket;
    for (uint32_t i = 0; i < parts->count; i++)
        all_parts[used++] = parts->of[i];
    return *bucket = count++;
}

uint32_t conjunction_count(void) {
    return count;
}

void conjunction_parts(uint32_t number, struct parts *parts) {
    parts->count = conjunctions[number].count;
    for (uint32_t i = 0; i < parts->count; i++)
        parts->of[i] = all_parts[conjunctions[number].first + i];
}
