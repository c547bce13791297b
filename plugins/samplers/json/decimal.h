/* Numbers of at most 16 digits before the point and 16 after it, exactly. */
#ifndef JSON_DECIMAL_H
#define JSON_DECIMAL_H

#include <stdint.h>

#include "json_text.h"

#define WHOLE_DIGITS 16u
#define FRACTION_DIGITS 16u
#define BEYOND 10000000000000000ull /* 10^16: `whole` of a bound that no such number reaches */

struct decimal {
    int is_negative;          /* never of 0 */
    uint64_t whole, fraction; /* the fraction in units of 10^-16 */
};

/* Steps of `units` * 10^-`scale`; units 0: there are none. */
struct step {
    uint64_t units;
    uint32_t scale;
};

/* Returns 0 when a node is no number, or has more digits. */
int read_decimal(const struct json *json, uint32_t node, struct decimal *value);

/* Reads a lower bound (`sign` 1) or an upper one (-1) of any digits as the nearest such number within it, or as BEYOND.
 * *is_itself: it is the bound. 0: it is no number, or a very long one. */
int read_bound(const struct json *json, uint32_t node, int sign, struct decimal *value, int *is_itself);

/* Less than, equal to or greater than 0 as a is to b. */
int compare_decimals(const struct decimal *a, const struct decimal *b);

/* Makes `step` the least common multiple of itself and a positive value; 0: it has too many digits. */
int join_step(struct step *step, const struct decimal *value);
int is_multiple(const struct decimal *value, const struct step *step);

#endif
