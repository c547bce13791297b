#include "exponential.h"

double exponential_table[TABLE_STEPS];

/* Taylor's series for 0 <= x < 1: 20 terms leave less than 1e-18. */
static double series(double x) {
    double sum = 1, term = 1;
    for (int i = 1; i < 20; i++) {
        term *= x / i;
        sum += term;
    }
    return sum;
}

void exponential_prepare(void) {
    for (int j = 0; j < TABLE_STEPS; j++)
        exponential_table[j] = series(j * (LN2 / TABLE_STEPS));
}
