/* Bounds of the grammar guests, each with its reason. Clause numbers are those of README.md in this folder. */
#ifndef GRAMMAR_LIMITS_H
#define GRAMMAR_LIMITS_H

#define ENDLESS 0xffffffffu     /* for a number of something that has no bound */
#define MAX_STATES 32768u       /* of the byte automaton as written: a pattern or schema of 16 KiB that copies much */
#define MAX_SETS 2048u          /* different byte sets */
#define MAX_COUNTS 256u         /* different numbers of letters that a pattern may read at most */
#define MAX_BUILD_WORK 200000u  /* steps of building: what repeats nothing a billion times ends here */
#define QUICK 4u                /* quick steps of building that count as one */
#define MAX_TOGETHER 10u        /* automata that read one text together (product.h): each subset of them has its own answer */
#define MAX_PLACES 8192u        /* sets of their states that are met, and these with counts of letters */
#define PLACE_MEMBERS 131072u   /* states in all of these */
#define MAX_WAYS 65536u         /* ways from one to another */
#define MAX_STACK 96u           /* open calls of one path: twice as deep as people nest JSON */
#define MAX_PATHS 2048u         /* ways to have read a text that are followed at once */
#define MAX_STACK_NODES 131072u /* different stacks */
#define MAX_POSITIONS 65536u    /* sets of paths that were met */
#define POSITION_PATHS 1048576u /* paths in all of them */
#define TABLE_WORDS 4194304u    /* transitions: 16 MiB, touched as they are used */
#define MAX_STEP_WORK 300000u   /* paths looked at in one step: about 15 ms, against a deadline of 100 */
#define MAX_NODES 1500000u      /* of the trie of tokens: 4.2 for each of 263,168 ids, and room */
#define MAX_TOKEN_BYTES 255u    /* longer tokens are never allowed */
#define MAX_REPEAT 65534u       /* in {m,n}: a class is counted, what is not ends at the bounds of states and of work */
#define MAX_GROUPS 24u          /* groups in groups in a pattern: the parser calls itself so deep */
#define MAX_FORCED 64u          /* ids of one FAST_FORWARD */
#define PLAIN_LETTERS 32u       /* of a token that counts as plain (trie.h) */
#define SHORT_BYTES 32u         /* tokens up to this length are told apart by it: all but 231 of the 128,256 of Llama 3 */
#define MAX_SPELLINGS 49152u    /* different sets of bytes that the tokens of a subtree spell: 23,492 at 128k tokens */
#define LOOP_TOKENS 64u         /* tokens below a position after which its loop is looked for: walking them costs the same */
#define CACHED_MASKS 128u
#define LIKE_NODES 1500u        /* a mask that looked at fewer is no dearer than asking what it is like */
#define SWEEP_NODES LIKE_NODES  /* what a sweep counts for */
#define LIKE_PAIRS 192u         /* pairs of positions that are compared for one mask */
#define LIKE_WORK 4000u         /* of MAX_ASIDE_WORK, for one comparison: what a walk costs */
#define MAX_ASIDE_WORK 60000u   /* paths looked at in a step for what only saves work; beside MAX_STEP_WORK */

#endif
