#include "dry.h"

#include "breakers.h"
#include "limits.h"
#include "sealhost_guest.h"

/* matches[i]: how many ids before (and with) the i-th from the end equal those at the end. */
static uint32_t matches[HISTORY_CAPACITY];

/* The Z function of the last `count` ids read backwards; `last` is the last one. Returns the longest match. */
static uint32_t find_matches(const uint32_t *last, uint32_t count) {
    uint32_t left = 0, right = 0, longest = 0; /* [left, right): the match that reaches furthest */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t match = 0;
        if (i < right)
            match = right - i < matches[i - left] ? right - i : matches[i - left];
        while (i + match < count && *(last - match) == *(last - i - match))
            match++;
        if (i + match > right) {
            left = i;
            right = i + match;
        }
        matches[i] = match;
        longest = match > longest ? match : longest;
    }
    return longest;
}

int32_t dry_find(struct row *row, const struct request *request, const struct settings *settings) {
    uint32_t count = request->parameters->history_length;
    if (settings->dry_penalty_last_n >= 0 && (uint32_t)settings->dry_penalty_last_n < count)
        count = (uint32_t)settings->dry_penalty_last_n;
    if (settings->dry_multiplier == 0 || count < 2)
        return SEALHOST_OK;
    const uint32_t *last = request->history + request->parameters->history_length - 1;
    uint32_t limit = breakers_limit(last, count, find_matches(last, count));
    for (uint32_t i = 1; i < count && limit >= settings->dry_allowed_length; i++) {
        uint32_t match = matches[i] < limit ? matches[i] : limit, next = *(last - i + 1);
        if (match < settings->dry_allowed_length || breakers_break(next))
            continue;
        struct adjusted *entry = adjust_entry(row, next);
        if (!entry)
            return fail(SEALHOST_ERROR_INPUT, "history: expected ids below vocab_size, got another");
        if (match > entry->repeated)
            entry->repeated = match;
    }
    return SEALHOST_OK;
}

#define LARGEST 3.4028234663852886e38 /* float32's: what a penalty is cut to, as in llama.cpp */

double dry_penalised(double value, const struct adjusted *entry, const struct settings *settings) {
    if (entry->repeated < settings->dry_allowed_length)
        return value;
    double power = 1, base = settings->dry_base;
    for (uint32_t n = entry->repeated - settings->dry_allowed_length; n; n >>= 1) {
        if (n & 1)
            power *= base;
        base *= base;
    }
    double penalty = settings->dry_multiplier * power;
    return value - (penalty < LARGEST ? penalty : LARGEST);
}
