/* The chain as a request's configuration orders it, with what clause 2.7's chain does not have: dynamic temperature,
 * typical, top-n-sigma, XTC, DRY, mirostat 2. README.md has the formulas, their sources and the edge values.
 */
#ifndef CONFIGURED_H
#define CONFIGURED_H

#include "adjust.h"
#include "settings.h"

/* What mirostat carries from one token of a choice to the next. */
struct mirostat {
    double mu;       /* bits: the most surprise that a token may be */
    double next;     /* mu once `token` stands */
    uint32_t token;  /* that was answered last; NO_TOKEN: none */
};

void mirostat_begin(struct mirostat *state, const struct settings *settings);

/* What the row tells of the history: whether the answered token stands. */
void mirostat_tell(struct mirostat *state, const struct request *request);

/* One token for a row whose entries adjust_begin() made. SEALHOST_OK, or an error whose text is set. */
int32_t configured_draw(
    struct row *row, const struct request *request, const struct settings *settings, struct mirostat *state,
    uint32_t *token);

#endif
