/* DRY, "don't repeat yourself": a penalty on the ids that would go on repeating what stood in the history before.
 *
 * Where the end of the history, n ids of it, has occurred before, the id that followed there is penalised by
 * multiplier * base^(n - allowed_length), for the longest such n, if n >= allowed_length. The repeated run holds no
 * sequence breaker (breakers.h), and ids that break by themselves are not penalised. Source: p-e-w,
 * text-generation-webui #5677; llama.cpp's llama_sampler_dry.
 */
#ifndef DRY_H
#define DRY_H

#include "adjust.h"
#include "settings.h"

/* Notes in `repeated` of the row's entries how long a run their id would continue; entries are made for such ids.
 * Linear in the history. SEALHOST_OK, or an error whose text is set. */
int32_t dry_find(struct row *row, const struct request *request, const struct settings *settings);

double dry_penalised(double value, const struct adjusted *entry, const struct settings *settings);

#endif
