/* What the guests hold; only the pages that are touched cost memory. */
#ifndef LIMITS_H
#define LIMITS_H

/* Choices in one step. */
#define MAX_ROWS 4u

/* Logits in a row: the largest vocabularies in use have 262,208; 257 pages of 4,096 bytes. */
#define VOCAB_CAPACITY 263168u

/* Ids of prompt and answer: the longest contexts in common use, 128k. */
#define HISTORY_CAPACITY 131072u

/* Entries of a bias list; clients send at most some hundreds. */
#define BIAS_CAPACITY 4096u

/* Bytes of configuration: the most that the ABI allows. */
#define CONFIG_CAPACITY 16384u

#endif
