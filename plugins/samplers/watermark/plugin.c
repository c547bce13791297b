/* Adds delta to the logits of the ids that are green after the last one; the host draws (EDITED). */
#define SEALHOST_ROWS 4u
#define SEALHOST_CONFIG 1024u
#include "green.h"
#include "json.h"
#include "sealhost_sampler.h"

#define KEY_DIGITS 32u
#define MOST_DELTA 100.0 /* far above what leaves any choice */

static struct {
    struct key key;
    double gamma, delta;
} settings;
static int settings_are_read;

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    settings_are_read = 0;
    return SEALHOST_OK;
}

static void read_key(struct json *in) {
    uint8_t digits[KEY_DIGITS], bytes[KEY_DIGITS / 2] = {0};
    in->bad |= json_string(in, digits, KEY_DIGITS) != KEY_DIGITS;
    for (uint32_t i = 0; i < KEY_DIGITS && !in->bad; i++) {
        uint8_t letter = digits[i] | 0x20;
        int is_digit = digits[i] >= '0' && digits[i] <= '9', is_letter = letter >= 'a' && letter <= 'f';
        in->bad = !is_digit && !is_letter;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (is_digit ? digits[i] - '0' : letter - 'a' + 10));
    }
    copy_bytes(&settings.key, bytes, sizeof bytes);
}

static void read_member(struct json *in, const char *name) {
    if (json_is(name, "key")) {
        read_key(in);
    } else if (json_is(name, "gamma")) {
        settings.gamma = json_number(in);
        in->bad |= !(settings.gamma > 0 && settings.gamma < 1);
    } else if (json_is(name, "delta")) {
        settings.delta = json_number(in);
        in->bad |= !(settings.delta >= 0 && settings.delta <= MOST_DELTA);
    } else {
        in->bad = 1;
    }
}

static int32_t read_settings(void) {
    struct json in = {config, config + row->config_length, 0, 0};
    int has_key = 0;
    settings.gamma = 0.25;
    settings.delta = 2;
    for (json_open(&in, '{'); json_next(&in, '}');) {
        char name[JSON_NAME];
        json_name(&in, name);
        read_member(&in, name);
        has_key |= json_is(name, "key");
    }
    if (!json_ends(&in) || !has_key)
        return fail(SEALHOST_ERROR_CONFIG, "sampler_config: expected key (32 hexadecimal digits), gamma and delta");
    settings_are_read = 1;
    return SEALHOST_OK;
}

/* What the host draws from holds no NaN (clause 2.11): it becomes -inf. */
static void raise_green(const struct partition *partition) {
    v128_t delta = wasm_f32x4_splat((float)settings.delta), nothing = wasm_f32x4_splat(-__builtin_inff());
    v128_t ids = wasm_i32x4_make(0, 1, 2, 3), four = wasm_i32x4_splat(4);
    for (uint32_t i = 0; i < row->vocab_size; i += 4) { /* the last four may reach beyond the row, which is whole pages */
        v128_t values = wasm_f32x4_pmax(nothing, wasm_v128_load(logits + i));
        wasm_v128_store(logits + i, wasm_f32x4_add(values, wasm_v128_and(delta, green(ids, partition))));
        ids = wasm_i32x4_add(ids, four);
    }
}

static int32_t sample(void) {
    if (!row->config_length) /* no request comes without a key, as the schema says; a host's self-test does */
        return answer(SEALHOST_PASS, 0);
    if (!settings_are_read || row->flags & SEALHOST_ROW_NEW) {
        int32_t status = read_settings();
        if (status)
            return status;
    }
    uint32_t previous = row->history_length ? history[row->history_length - 1] : NO_PREVIOUS;
    struct partition partition = partition_after(&settings.key, previous, settings.gamma);
    raise_green(&partition);
    return answer(SEALHOST_EDITED, 0);
}
