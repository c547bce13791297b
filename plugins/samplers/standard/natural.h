/* The natural logarithm in float64, without a maths library.
 *
 * x = m 2^e with m in [sqrt(1/2), sqrt(2)): ln x = e ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172, so the
 * series to s^21 leaves less than 1e-17. Relative error of the sum below 1e-15 where ln x is not near 0.
 */
#ifndef NATURAL_H
#define NATURAL_H

#include <stdint.h>

/* x > 0, finite and normal. */
static inline double natural_logarithm(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFull) | 1023ull << 52;
    double m, sum = 0;
    __builtin_memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1) / (m + 1), square = s * s;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return (double)exponent * 0.69314718055994530942 + 2 * s * sum;
}

#endif
