#include "decimal.h"

#define MOST_UNITS 100000000000000000ull /* 10^17: ten times it is still in 64 bits */
#define MAX_TEXT 64u                     /* zeros that say nothing are no reason to read for long */
#define FAR 1000                         /* an exponent beyond it says enough */

static uint64_t power(uint32_t of_ten) {
    uint64_t found = 1;
    while (of_ten-- > 0)
        found *= 10;
    return found;
}

enum { IS_NUMBER = 1, IS_BEYOND = 2, IS_FINER = 4 };

/* What of a number's digits there is room for, and whether it has others before these or after them; 0: it is none. */
static int read_digits(const struct json *json, uint32_t index, struct decimal *value) {
    const struct json_node *node = &json->nodes[index];
    const uint8_t *text = json->text + node->at;
    int32_t exponent = 0, place = 0;
    uint32_t from = 0, to = 0;
    int found = IS_NUMBER;
    *value = (struct decimal){0};
    if (node->kind != JSON_NUMBER || node->length > MAX_TEXT)
        return 0;
    from = text[0] == '-';
    while (to < node->length && (text[to] | 0x20) != 'e')
        to++;
    if (to < node->length) {
        int is_negative = text[to + 1] == '-';
        for (uint32_t i = to + 1 + (text[to + 1] == '-' || text[to + 1] == '+'); i < node->length && exponent < FAR; i++)
            exponent = exponent * 10 + text[i] - '0';
        exponent = is_negative ? -exponent : exponent;
    }
    while (from + (uint32_t)place < to && text[from + (uint32_t)place] != '.')
        place++;
    for (uint32_t i = from; i < to; i++) { /* `place`: digits from this one to the point */
        if (text[i] == '.')
            continue;
        int32_t at = --place + exponent;
        uint64_t digit = text[i] - '0';
        if (digit && at >= (int32_t)WHOLE_DIGITS)
            found |= IS_BEYOND;
        else if (digit && at < -(int32_t)FRACTION_DIGITS)
            found |= IS_FINER;
        else if (digit && at >= 0)
            value->whole += digit * power((uint32_t)at);
        else if (digit)
            value->fraction += digit * power((uint32_t)(at + (int32_t)FRACTION_DIGITS));
    }
    value->is_negative = text[0] == '-' && (value->whole || value->fraction);
    return found;
}

int read_decimal(const struct json *json, uint32_t index, struct decimal *value) {
    return read_digits(json, index, value) == IS_NUMBER;
}

int read_bound(const struct json *json, uint32_t index, int sign, struct decimal *value, int *is_itself) {
    int found = read_digits(json, index, value), is_negative = found && json->text[json->nodes[index].at] == '-';
    *is_itself = found == IS_NUMBER;
    if (found & IS_BEYOND)
        *value = (struct decimal){is_negative, BEYOND, 0};
    else if (found & IS_FINER && is_negative == (sign < 0)) { /* away from 0; what is cut off led the other way */
        value->is_negative = is_negative;
        value->fraction++;
        value->whole += value->fraction / BEYOND;
        value->fraction %= BEYOND;
    }
    return found != 0;
}

static int order(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

int compare_decimals(const struct decimal *a, const struct decimal *b) {
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    int sizes = a->whole == b->whole ? order(a->fraction, b->fraction) : order(a->whole, b->whole);
    return a->is_negative ? -sizes : sizes;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The same step with more places; 0: too many digits. */
static int rescale(struct step *step, uint32_t scale) {
    for (; step->scale < scale; step->scale++) {
        if (step->units > MOST_UNITS / 10)
            return 0;
        step->units *= 10;
    }
    return 1;
}

int join_step(struct step *step, const struct decimal *value) {
    struct step other = {.scale = FRACTION_DIGITS};
    uint64_t fraction = value->fraction;
    for (; other.scale > 0 && fraction % 10 == 0; other.scale--)
        fraction /= 10;
    if (value->whole > MOST_UNITS / power(other.scale) - 1)
        return 0;
    other.units = value->whole * power(other.scale) + fraction;
    if (!step->units) {
        *step = other;
        return 1;
    }
    if (!rescale(step, other.scale) || !rescale(&other, step->scale))
        return 0;
    uint64_t factor = other.units / common_divisor(step->units, other.units);
    if (step->units > MOST_UNITS / factor)
        return 0;
    step->units *= factor;
    return 1;
}

int is_multiple(const struct decimal *value, const struct step *step) {
    uint64_t rest = value->whole % step->units, unit = power(FRACTION_DIGITS);
    uint64_t fraction = value->fraction;
    for (uint32_t i = 0; i < step->scale; i++) {
        unit /= 10;
        rest = (rest * 10 + fraction / unit) % step->units;
        fraction %= unit;
    }
    return rest == 0 && fraction == 0;
}
