/* What a pattern looks ahead for where a text begins: ^(?=...) and ^(?!...). */
#ifndef JSON_CONDITIONS_H
#define JSON_CONDITIONS_H

#include <stdint.h>

struct condition {
    uint32_t from, length; /* the pattern that a beginning of the text has to match */
    int is_not;            /* or must not */
};

/* Takes the condition that stands at *at, and moves *at behind it. 0: there is none, or what follows it are alternatives, the
 * first of which alone it is about. */
int take_condition(const uint8_t *pattern, uint32_t length, uint32_t *at, struct condition *found);

#endif
