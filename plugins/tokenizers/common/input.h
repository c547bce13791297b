/* The most that one call encodes: above 200,000 tokens of prose. */
#ifndef INPUT_H
#define INPUT_H

#define INPUT_BYTES (1u << 20)

#endif
