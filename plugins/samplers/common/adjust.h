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

/* The parts of it, for a chain whose order is configured: bias and counts, ... */
int32_t adjust_begin(struct row *row, const struct request *request);

/* ... the penalties of an entry that has come to `value`, ... */
double adjust_penalised(double value, const struct adjusted *entry, const struct sealhost_row *parameters);

/* ... the entry of an id, made on first use (0: the id is not in the vocabulary), and the entry if there is one. */
struct adjusted *adjust_entry(struct row *row, uint32_t id);
const struct adjusted *adjust_find(const struct row *row, uint32_t id);

#endif
