/* What this guest may use of its memory. */
#ifndef LIMITS_H
#define LIMITS_H

/* 262,144 tokens with 515,000 merges take about 32 MiB, loading included; the longest piece of text (1 MiB) takes 36 MiB
 * more. */
#define ARENA_BYTES (88u << 20)

#endif
