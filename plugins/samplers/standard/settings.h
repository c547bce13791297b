/* What a request's `sampler_config` asks of this sampler, with llama.cpp's names and defaults. Its sequence breakers lie
 * in breakers.h. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdint.h>

enum stage {
    STAGE_PENALTIES,
    STAGE_DRY,
    STAGE_TOP_N_SIGMA,
    STAGE_TOP_K,
    STAGE_TYPICAL,
    STAGE_TOP_P,
    STAGE_MIN_P,
    STAGE_XTC,
    STAGE_TEMPERATURE,
    STAGES,
};

struct settings {
    int given;               /* whether there is a configuration with anything in it */
    double dynatemp_range;   /* 0: off */
    double dynatemp_exponent;
    double typical_p;        /* 1: off */
    double top_n_sigma;      /* 0: off */
    double xtc_probability;  /* 0: off */
    double xtc_threshold;
    double dry_multiplier;   /* 0: off */
    double dry_base;
    uint32_t dry_allowed_length;
    int32_t dry_penalty_last_n; /* ids at the end of the history that it looks at; -1: all */
    int mirostat;            /* 0 or 2 */
    double mirostat_tau, mirostat_eta;
    uint8_t order[STAGES];   /* enum stage */
    uint32_t order_count;
};

/* SEALHOST_OK, or SEALHOST_ERROR_CONFIG with a text. No bytes: nothing is given. */
int32_t settings_read(struct settings *settings, const uint8_t *bytes, uint32_t length);

#endif
