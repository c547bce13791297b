/* Logit bias and penalties, in float64, for the few ids that they touch.
 *
 * Order (clause 2.7): bias; repetition over prompt and generated ids: x > 0 ? x / p : x * p; then
 * presence + count * frequency, subtracted, over generated ids only.
 */
#ifndef ADJUST_H
#define ADJUST_H

#include "row.h"
#include "sealhost.h"

/* What one row asks for; ids are checked against row->count. */
struct request {
    const struct sealhost_row *parameters;
    const uint32_t *history;
    const struct sealhost_bias *bias;
};

/* Fills row->adjusted and puts -inf into their places among the logits. SEALHOST_OK, or an error whose text is set;
 * after either, adjust_undo() gives the logits back as they came. */
int32_t adjust(struct row *row, const struct request *request);
void adjust_undo(struct row *row);

#endif
