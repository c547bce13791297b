#include "rules.h"

#include <stddef.h>

#include "sealhost_guest.h"
#include "unicode.h"
#include "vocabulary.h"

const struct rule *rule;

static const struct rule rules[] = {
    {"gpt-2 gpt-neox mpt olmo phi-2", 0, {{STEP_GPT2, 0, 0}}},
    {"smollm starcoder refact command-r codeshell minerva-7b", 0, {{STEP_EACH, 0, CLASS_NUMBER}, {STEP_GPT2, 0, 0}}},
    {"llama-bpe llama3 llama-v3 falcon3 glm4", 1, {{STEP_CL100K, 3, CLASS_LETTER}}},
    {"dbrx smaug-bpe chatglm-bpe", 0, {{STEP_CL100K, 3, CLASS_LETTER}}},
    {"qwen2 deepseek-r1-qwen stablelm2 megrez", 0, {{STEP_CL100K, 1, CLASS_LETTER}}},
    {"qwen35", 0, {{STEP_CL100K, 1, CLASS_LETTER | CLASS_MARK}}},
    {"tekken", 1, {{STEP_O200K, 1, 0}}},
    {"gpt-4o llama4", 0, {{STEP_O200K, 3, 1}}},
    {"deepseek-llm",
     0,
     {{STEP_EACH, 0, SET_LINE_BREAKS},
      {STEP_SPACED_RUNS, 0, CLASS_LISTED},
      {STEP_SPACED_RUNS, 0, SET_LISTED_PUNCT},
      {STEP_TRAILING, 0, 0},
      {STEP_RUNS, 0, SET_CJK},
      {STEP_EACH, 0, CLASS_NUMBER}}},
    {"deepseek-coder",
     0,
     {{STEP_EACH, 0, SET_LINE_BREAKS},
      {STEP_SPACED_RUNS, 0, CLASS_LETTER},
      {STEP_SPACED_RUNS, 0, CLASS_PUNCT},
      {STEP_RUNS, 0, SET_CJK},
      {STEP_EACH, 0, CLASS_NUMBER}}},
    {"falcon",
     0,
     {{STEP_RUNS, 0, CLASS_STEP}, {STEP_GPT2, 0, 0}, {STEP_NUMBER_BYTES, 0, 0}, {STEP_TRIPLES, 0, 0}}},
    {"default",
     0,
     {{STEP_RUNS, 0, CLASS_PUNCT | SET_MATHS},
      {STEP_GPT2, 0, 0},
      {STEP_RUNS, 0, CLASS_NUMBER},
      {STEP_TRIPLES, 0, 0}}},
    {"gemma4", 0, {{STEP_RUNS, 0, SET_LINE_FEED}, {STEP_WORDS, 0, 0}}},
};

/* Whether one of the names, which spaces separate, is this one. */
static int names(const char *list, struct section name) {
    while (*list) {
        uint32_t length = 0;
        while (list[length] && list[length] != ' ')
            length++;
        if (length == name.length && equal_bytes((const uint8_t *)list, name.at, length))
            return 1;
        list += length + (list[length] == ' ');
    }
    return 0;
}

const struct rule *rules_find(struct section name) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (names(rules[i].names, name))
            return &rules[i];
    return 0;
}

int rules_take_whole(const uint8_t *piece, uint32_t length) {
    if (vocabulary.spelling == SPELLS_ALPHABET)
        return rule->whole_pieces;
    uint32_t feeds = 0; /* gemma4: a run of line feeds that is a token */
    while (feeds < length && piece[feeds] == '\n')
        feeds++;
    return feeds == length;
}
