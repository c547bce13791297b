/* Says what the first letter of its configuration asks for. TIER */
#include "sealhost_sampler.h"

SEALHOST_EXPORT(init) int32_t init(void) {
    return SEALHOST_OK;
}

SEALHOST_EXPORT(reset) int32_t reset(void) {
    return SEALHOST_OK;
}

static int32_t sample(void) {
    switch (config[0]) {
    case 'm':
        allow_none();
        allow(1);
        allow(40);
        return answer_mask();
    case 's':
        add_bias(0, 3, 100);
        add_bias(1, 4, -__builtin_inff());
        return answer_sparse(2);
    case 'f':
        for (uint32_t i = 0; i < 3; i++)
            answer_words[i] = 5 + i;
        return fast_forward(3);
    case 'b':
        answer_words[0] = 9;
        return backtrack(2, 1);
    case 'l':
        log_text("hello\n");
        return answer(SEALHOST_PASS, 0);
#ifdef SEALHOST_CANDIDATES
    case 'e':
        candidates[0].logit = -__builtin_inff();
        return answer(SEALHOST_EDITED, 0);
#endif
#ifdef SEALHOST_VOCABULARY
    case 'v': { /* the text of the last token of the prompt, byte by byte, then its type, the number of tokens, and EOS */
        uint32_t length, id = history[row->prompt_length - 1];
        const uint8_t *text = token_text(id, &length);
        for (uint32_t i = 0; i < length; i++)
            answer_words[i] = text[i];
        answer_words[length] = token_type(id);
        answer_words[length + 1] = tokens.table.count;
        answer_words[length + 2] = (uint32_t)tokens.table.eos;
        return fast_forward(length + 3);
    }
#endif
    default:
        return answer(SEALHOST_STOP, 0);
    }
}
