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
    default:
        return answer(SEALHOST_STOP, 0);
    }
}
