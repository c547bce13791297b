/* What this guest may use of its memory. */
#ifndef LIMITS_H
#define LIMITS_H

/* 250,000 tokens take about 30 MiB, loading included; the longest stretch of text (1 MiB) takes 16 MiB more. */
#define ARENA_BYTES (88u << 20)

#endif
