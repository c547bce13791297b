#include "json.h"

static int take(struct json *in, uint8_t byte) {
    if (in->bad || in->at == in->end || *in->at != byte)
        return 0;
    in->at++;
    return 1;
}

static void need(struct json *in, uint8_t byte) {
    if (!take(in, byte))
        in->bad = 1;
}

void json_open(struct json *in, uint8_t bracket) {
    need(in, bracket);
    in->fresh = 1;
}

int json_next(struct json *in, uint8_t closing) {
    int fresh = in->fresh;
    in->fresh = 0;
    if (in->bad || take(in, closing))
        return 0;
    if (!fresh)
        need(in, ',');
    return !in->bad;
}

void json_name(struct json *in, char *out) {
    uint32_t length = json_string(in, (uint8_t *)out, JSON_NAME - 1);
    out[length] = 0;
    need(in, ':');
}

int json_is(const char *name, const char *expected) {
    while (*name && *name == *expected) {
        name++;
        expected++;
    }
    return *name == *expected;
}

static uint32_t hex_digit(struct json *in) {
    uint8_t byte = in->at < in->end ? *in->at++ : 0;
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f')
        return (byte | 0x20) - 'a' + 10u;
    in->bad = 1;
    return 0;
}

static uint32_t hex_unit(struct json *in) {
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++)
        unit = unit * 16 + hex_digit(in);
    return unit;
}

/* What follows \u: a scalar value, of one unit or of a pair. */
static uint32_t escaped_scalar(struct json *in) {
    uint32_t unit = hex_unit(in);
    if (unit - 0xD800u >= 0x800u)
        return unit;
    need(in, '\\');
    need(in, 'u');
    uint32_t low = hex_unit(in);
    if (unit >= 0xDC00u || low - 0xDC00u >= 0x400u)
        in->bad = 1;
    return 0x10000u + ((unit - 0xD800u) << 10) + (low - 0xDC00u);
}

struct output {
    uint8_t *bytes;
    uint32_t length, room;
};

static void put(struct json *in, struct output *out, uint32_t byte) {
    if (out->length == out->room) {
        in->bad = 1;
        return;
    }
    out->bytes[out->length++] = (uint8_t)byte;
}

static void put_scalar(struct json *in, struct output *out, uint32_t scalar) {
    if (scalar < 0x80) {
        put(in, out, scalar);
        return;
    }
    uint32_t more = scalar < 0x800 ? 1 : scalar < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    put(in, out, lead[more] | scalar >> (6 * more));
    while (more--)
        put(in, out, 0x80u | (scalar >> (6 * more) & 0x3Fu));
}

static void put_escape(struct json *in, struct output *out) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    uint8_t letter = in->at < in->end ? *in->at++ : 0;
    if (letter == 'u') {
        put_scalar(in, out, escaped_scalar(in));
        return;
    }
    uint32_t i = 0;
    while (letters[i] && letters[i] != letter)
        i++;
    if (letters[i])
        put(in, out, (uint8_t)meanings[i]);
    else
        in->bad = 1;
}

uint32_t json_string(struct json *in, uint8_t *bytes, uint32_t room) {
    struct output out = {bytes, 0, room};
    need(in, '"');
    while (!in->bad && !take(in, '"')) {
        if (in->at == in->end || *in->at < 0x20)
            in->bad = 1;
        else if (take(in, '\\'))
            put_escape(in, &out);
        else
            put(in, &out, *in->at++);
    }
    return in->bad ? 0 : out.length;
}

static int is_digit(const struct json *in) {
    return in->at < in->end && *in->at >= '0' && *in->at <= '9';
}

#define MOST_DIGITS 19u  /* that 64 bits hold */
#define MOST_EXPONENT 400 /* beyond float64 either way, whatever the digits are */

static double scaled(double value, int exponent) {
    for (; exponent >= 22; exponent -= 22)
        value *= 1e22;
    for (; exponent <= -22; exponent += 22)
        value /= 1e22;
    double power = 1; /* powers up to 1e22 are exact */
    for (int i = exponent < 0 ? -exponent : exponent; i; i--)
        power *= 10;
    return exponent < 0 ? value / power : value * power;
}

static int exponent_of(struct json *in) {
    if (!take(in, 'e') && !take(in, 'E'))
        return 0;
    int negative = take(in, '-'), exponent = 0;
    if (!negative)
        take(in, '+');
    if (!is_digit(in))
        in->bad = 1;
    for (; is_digit(in); in->at++)
        exponent = exponent < MOST_EXPONENT ? exponent * 10 + (*in->at - '0') : exponent;
    return negative ? -exponent : exponent;
}

double json_number(struct json *in) {
    int negative = take(in, '-'), exponent = 0, fraction = 0;
    uint64_t digits = 0;
    uint32_t count = 0;
    if (!is_digit(in))
        in->bad = 1;
    for (; !in->bad; in->at++) {
        if (!fraction && in->at < in->end && *in->at == '.') {
            fraction = 1;
            continue;
        }
        if (!is_digit(in))
            break;
        int kept = count < MOST_DIGITS;
        digits = kept ? digits * 10 + (uint64_t)(*in->at - '0') : digits;
        count += kept && digits;
        exponent += (kept ? 0 : 1) - fraction;
    }
    exponent += exponent_of(in);
    exponent = exponent > MOST_EXPONENT ? MOST_EXPONENT : exponent < -MOST_EXPONENT ? -MOST_EXPONENT : exponent;
    double value = in->bad || !digits ? 0 : scaled((double)digits, exponent);
    return negative ? -value : value;
}

int json_boolean(struct json *in) {
    int value = in->at < in->end && *in->at == 't';
    for (const char *text = value ? "true" : "false"; *text; text++)
        need(in, (uint8_t)*text);
    return value;
}

int json_ends(const struct json *in) {
    return !in->bad && in->at == in->end;
}
