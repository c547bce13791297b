/* What this guest may use of its memory. */
#ifndef LIMITS_H
#define LIMITS_H

/* 262,144 tokens take about 13 MiB, loading included; the longest piece of text (1 MiB) takes 36 MiB more. */
#define ARENA_BYTES (56u << 20)

#endif
