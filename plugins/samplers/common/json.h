/* Reads a sampler's configuration: the host writes compact JSON (no white space, sorted names) and has checked it
 * against the plugin's schema, so what is not as expected is an error and nothing is repaired.
 *
 *     struct json in = {config, config + length, 0, 0};
 *     for (json_open(&in, '{'); json_next(&in, '}');) {
 *         json_name(&in, name, sizeof name);
 *         if (json_is(name, "tau")) tau = json_number(&in);
 *         else in.bad = 1;
 *     }
 *     if (!json_ends(&in)) ...
 *
 * After the first fault `bad` stays set, every loop ends, and values are 0.
 */
#ifndef JSON_H
#define JSON_H

#include <stdint.h>

struct json {
    const uint8_t *at, *end;
    int fresh; /* the innermost bracket has just been opened */
    int bad;
};

#define JSON_NAME 32u /* bytes of the longest name, and its NUL */

void json_open(struct json *in, uint8_t bracket);

/* Whether another element of the innermost array or object follows; takes its comma, or the closing bracket. */
int json_next(struct json *in, uint8_t closing);

/* A member's name and the colon behind it, NUL-terminated; a longer one is a fault. */
void json_name(struct json *in, char *out);
int json_is(const char *name, const char *expected);

/* A string's UTF-8 without a NUL behind it, at most `room` bytes. Returns its length. */
uint32_t json_string(struct json *in, uint8_t *out, uint32_t room);

/* Within two units in the last place of the number that is written. */
double json_number(struct json *in);
int json_boolean(struct json *in);

/* Whether all was read and there was no fault. */
int json_ends(const struct json *in);

#endif
