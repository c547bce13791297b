/* How alike two positions are: what may follow is often the same but for long texts, where letters are counted say. */
#ifndef GRAMMAR_LIKENESS_H
#define GRAMMAR_LIKENESS_H

#include <stdint.h>

/* A number of bytes such that each text of no more can follow both positions or neither; at most `most`. */
uint32_t alike_for(uint32_t a, uint32_t b, uint32_t most);

#endif
