#include "settings.h"

#include "breakers.h"
#include "json.h"
#include "sealhost_guest.h"

/* By enum stage; the second ones are llama.cpp's other names. */
static const char *const names[STAGES] = {"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                          "top_p",     "min_p", "xtc",         "temperature"};
static const char *const other_typical = "typical_p";

static void set_defaults(struct settings *settings) {
    *settings = (struct settings){
        .dynatemp_exponent = 1,
        .typical_p = 1,
        .xtc_threshold = 0.1,
        .dry_base = 1.75,
        .dry_allowed_length = 2,
        .dry_penalty_last_n = -1,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1,
        .order_count = STAGES,
    };
    for (uint8_t stage = 0; stage < STAGES; stage++)
        settings->order[stage] = stage;
}

static uint32_t stage_named(const char *name) {
    for (uint32_t stage = 0; stage < STAGES; stage++)
        if (json_is(name, names[stage]))
            return stage;
    return json_is(name, other_typical) ? STAGE_TYPICAL : STAGES;
}

/* Each stage at most once. */
static void read_order(struct json *in, struct settings *settings) {
    uint32_t seen = 0;
    settings->order_count = 0;
    for (json_open(in, '['); json_next(in, ']');) {
        char name[JSON_NAME];
        name[json_string(in, (uint8_t *)name, JSON_NAME - 1)] = 0;
        uint32_t stage = stage_named(name);
        if (in->bad || stage == STAGES || seen >> stage & 1) {
            in->bad = 1;
            return;
        }
        seen |= 1u << stage;
        settings->order[settings->order_count++] = (uint8_t)stage;
    }
}

static double whole(struct json *in, double least, double most) {
    double value = json_number(in);
    if (value != __builtin_trunc(value) || value < least || value > most) {
        in->bad = 1;
        return 0;
    }
    return value;
}

/* Ids and texts; the list replaces the default. */
static void read_breakers(struct json *in) {
    breakers_clear();
    for (json_open(in, '['); json_next(in, ']');) {
        int is_text = in->at < in->end && *in->at == '"';
        int has_room = is_text ? breakers_add_text(json_string(in, breakers_text(), MAX_BREAKER_TEXT))
                               : breakers_add_id((uint32_t)whole(in, 0, 4294967295.0));
        in->bad |= !has_room;
    }
}

struct number {
    const char *name;
    uint32_t offset; /* of a double in struct settings */
    double least, most;
};

#define NUMBER(field, least, most) {#field, __builtin_offsetof(struct settings, field), least, most}

static const struct number numbers[] = {
    NUMBER(dynatemp_range, 0, 1e6),  NUMBER(dynatemp_exponent, 0, 1e6), NUMBER(typical_p, 0, 1),
    NUMBER(top_n_sigma, 0, 1e6),     NUMBER(xtc_probability, 0, 1),     NUMBER(xtc_threshold, 0, 1),
    NUMBER(dry_multiplier, 0, 1e6),  NUMBER(dry_base, 1, 1e6),          NUMBER(mirostat_tau, 0, 1e6),
    NUMBER(mirostat_eta, 0, 1e6),
};

static int read_number(struct json *in, const char *name, struct settings *settings) {
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!json_is(name, numbers[i].name))
            continue;
        double value = json_number(in);
        if (!(value >= numbers[i].least && value <= numbers[i].most))
            in->bad = 1;
        *(double *)((char *)settings + numbers[i].offset) = value;
        return 1;
    }
    return 0;
}

static void read_member(struct json *in, const char *name, struct settings *settings) {
    if (read_number(in, name, settings))
        return;
    if (json_is(name, "dry_allowed_length"))
        settings->dry_allowed_length = (uint32_t)whole(in, 1, 1e6);
    else if (json_is(name, "dry_penalty_last_n"))
        settings->dry_penalty_last_n = (int32_t)whole(in, -1, 1e6);
    else if (json_is(name, "dry_sequence_breakers"))
        read_breakers(in);
    else if (json_is(name, "mirostat")) {
        settings->mirostat = (int)whole(in, 0, 2);
        in->bad |= settings->mirostat == 1;
    } else if (json_is(name, "samplers"))
        read_order(in, settings);
    else
        in->bad = 1;
}

int32_t settings_read(struct settings *settings, const uint8_t *bytes, uint32_t length) {
    set_defaults(settings);
    breakers_clear();
    breakers_default();
    if (!length)
        return SEALHOST_OK;
    struct json in = {bytes, bytes + length, 0, 0};
    char name[JSON_NAME] = "";
    for (json_open(&in, '{'); json_next(&in, '}');) {
        json_name(&in, name);
        read_member(&in, name, settings);
        settings->given = 1;
    }
    if (json_ends(&in))
        return SEALHOST_OK;
    error_begin("sampler_config: expected what the schema of this sampler says, got something else at \"");
    error_text(name);
    error_text("\"");
    return SEALHOST_ERROR_CONFIG;
}
