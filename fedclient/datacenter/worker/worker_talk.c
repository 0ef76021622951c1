/* Exchange other data than gradients between workers, as sums of float32. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedclient/datacenter/worker/worker_impl.h"

static void add_counts(feddc_exchange_counts *sum, const feddc_exchange_counts *c, int sign) {
    /* multiplying by UINT64_MAX is subtracting, modulo 2^64 */
    const uint64_t one = sign > 0 ? 1 : UINT64_MAX;
    sum->sent_bytes += one * c->sent_bytes;
    sum->received_bytes += one * c->received_bytes;
    sum->messages += one * c->messages;
    sum->zeroed += one * c->zeroed;
    sum->coded += one * c->coded;
    for (size_t k = 0; k < FEDDC_SPREAD; k++) {
        sum->spread[k] += one * c->spread[k];
    }
    sum->encode_s += sign * c->encode_s;
    sum->decode_s += sign * c->decode_s;
    sum->sum_s += sign * c->sum_s;
    sum->exchange_s += sign * c->exchange_s;
}

void feddc_worker_count_in(feddc_worker *w, int sign) {
    feddc_exchange_counts counts = {0};
    if (w->x != NULL) {
        feddc_exchange_count(w->x, &counts);
        add_counts(&w->earlier, &counts, sign);
    }
}

typedef struct target {
    feddc_worker *w;
    float *y;
    size_t n;
} target;

static void keep_sum(void *user, size_t offset, const float *sum, size_t n) {
    const target *t = user;
    if (offset < t->n) {
        const size_t count = n < t->n - offset ? n : t->n - offset;
        feddc_worker_note(
            t->w, feddc_values_bytes(&t->w->values, sum, count, (uint8_t *)(t->y + offset)));
    }
}

fed_status feddc_worker_turn(feddc_worker *w, bool plain, float *y, size_t n, fed_error *err) {
    target t = {.w = w, .y = y, .n = n};
    if (feddc_worker_on_gpu(w)) {
        FED_TRY(feddc_worker_up(w, w->grad[0], w->words, w->n, err));
    }
    feddc_worker_count_in(w, 1);
    feddc_exchange_put(w->x, w->turn, 0, w->grad[0], w->n, plain);
    fed_status status = feddc_exchange_take(w->x, w->turn, 0, w->n, keep_sum, &t, err);
    feddc_worker_count_in(w, -1);
    w->turn++;
    w->taken = w->due = w->turn;
    feddc_worker_note(w, feddc_values_wait(&w->values));
    return status == FED_OK ? feddc_worker_failure(w, err) : status;
}

/* y = the sum of all ranks' x, float32[n]; y may be x. Call it only when all sums are taken. */
static fed_status sum(feddc_worker *w, const float *x, size_t n, float *y, fed_error *err) {
    for (size_t at = 0; at < n; at += w->n) {
        const size_t part = n - at < w->n ? n - at : w->n;
        memcpy(w->words, x + at, part * sizeof *x);
        memset(w->words + part, 0, (w->n - part) * sizeof *x);
        FED_TRY(feddc_worker_turn(w, true, y + at, part, err));
    }
    return FED_OK;
}

/* Bytes are sent in pairs: each pair is a number below 2^16, which float32 represents exactly.
 * dst[bytes] = sum of all ranks' src as 16-bit numbers. For each number, only one rank's src may be
 * other than 0. src NULL: zeros. */
static fed_status merge(feddc_worker *w, const uint8_t *src, size_t bytes, uint8_t *dst,
                        fed_error *err) {
    const size_t words = bytes / 2;
    for (size_t at = 0; at < words; at += w->n) {
        const size_t part = words - at < w->n ? words - at : w->n;
        float *x = w->words;
        memset(x, 0, w->n * sizeof *x);
        for (size_t i = 0; src != NULL && i < part; i++) {
            x[i] = (float)(src[2 * (at + i)] | (unsigned)src[2 * (at + i) + 1] << 8);
        }
        FED_TRY(feddc_worker_turn(w, true, x, part, err));
        for (size_t i = 0; i < part; i++) {
            const unsigned word = (unsigned)x[i];
            dst[2 * (at + i)] = (uint8_t)word;
            dst[2 * (at + i) + 1] = (uint8_t)(word >> 8);
        }
    }
    return FED_OK;
}

fed_status feddc_worker_share(feddc_worker *w, uint32_t from, void *data, size_t bytes,
                              fed_error *err) {
    return merge(w, from == w->rank ? data : NULL, bytes, data, err);
}

fed_status feddc_worker_gather(feddc_worker *w, const void *own, size_t bytes, void *all,
                               fed_error *err) {
    uint8_t *to = all;
    memset(to, 0, bytes * w->workers);
    memcpy(to + bytes * w->rank, own, bytes);
    return merge(w, to, bytes * w->workers, to, err);
}

static fed_status mean_statistics(feddc_worker *w, fed_error *err) {
    float *statistics = w->params + w->n;
    const size_t n = w->o.arch->layout.size - w->n;
    FED_TRY(sum(w, statistics, n, statistics, err));
    for (size_t i = 0; i < n; i++) {
        statistics[i] *= 1.0F / (float)w->workers;
    }
    return FED_OK;
}

feddc_worker_tally feddc_worker_tally_of(feddc_worker *w) {
    feddc_worker_count_in(w, 1);
    const feddc_exchange_counts c = w->earlier;
    feddc_worker_count_in(w, -1);
    feddc_worker_tally t = {.digest = fed_digest(w->params, w->o.arch->layout.size),
                            .steps = w->steps,
                            .loss = w->losses > 0 ? w->loss / (double)w->losses : 0,
                            .step_s = w->step_s,
                            .forward_s = w->phase_s[FEDDC_FORWARD],
                            .backward_s = w->phase_s[FEDDC_BACKWARD],
                            .update_s = w->phase_s[FEDDC_UPDATING],
                            .exposed_s = w->phase_s[FEDDC_WAITING],
                            .exchange_s = c.exchange_s,
                            .encode_s = c.encode_s,
                            .decode_s = c.decode_s,
                            .sum_s = c.sum_s,
                            .sent_bytes = c.sent_bytes,
                            .received_bytes = c.received_bytes,
                            .messages = c.messages,
                            .zeroed = c.zeroed,
                            .coded = c.coded};
    memcpy(t.spread, c.spread, sizeof t.spread);
    feddc_tally_add(&t, &w->before);
    return t;
}

static fed_status compare_digests(const feddc_worker *w, const feddc_worker_tally *tally,
                                  fed_error *err) {
    for (uint32_t r = 1; r < w->workers; r++) {
        if (tally[r].digest != tally[0].digest) {
            return fed_fail(err, FED_ESTATE,
                            "after %" PRIu32 " steps rank %" PRIu32
                            " has different parameters from rank 0 (%016" PRIx64 ", %016" PRIx64
                            "): its replica has drifted, so go back to an earlier checkpoint",
                            w->step, r, tally[r].digest, tally[0].digest);
        }
    }
    return FED_OK;
}

/* With an optimizer at the owners each rank computes with a replica of its own. */
static fed_status compare_locals(feddc_worker *w, fed_error *err) {
    const uint64_t own = fed_digest(w->local, w->n);
    uint64_t *all = calloc(w->workers, sizeof *all);
    if (all == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the digests of %" PRIu32 " workers",
                        w->workers);
    }
    fed_status status = feddc_worker_gather(w, &own, sizeof own, all, err);
    for (uint32_t r = 1; r < w->workers && status == FED_OK; r++) {
        if (all[r] != all[0]) {
            status = fed_fail(err, FED_ESTATE,
                              "after %" PRIu32 " steps rank %" PRIu32
                              " has a replica other than rank 0's (%016" PRIx64 ", %016" PRIx64
                              "): it has drifted, so go back to an earlier checkpoint",
                              w->step, r, all[r], all[0]);
        }
    }
    free(all);
    return status;
}

fed_status feddc_worker_settle(feddc_worker *w, feddc_worker_tally *tally, fed_error *err) {
    feddc_worker_tally *all = calloc(w->workers, sizeof *all);
    if (all == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for what %" PRIu32 " workers report",
                        w->workers);
    }
    feddc_worker_enter(w, FEDDC_SYNCING);
    fed_status status = w->o.at_owners ? feddc_worker_owner_gather(w, err) : FED_OK;
    if (status == FED_OK) {
        status = mean_statistics(w, err);
    }
    if (status == FED_OK) {
        const feddc_worker_tally own = feddc_worker_tally_of(w);
        status = feddc_worker_gather(w, &own, sizeof own, all, err);
    }
    if (status == FED_OK) {
        status = compare_digests(w, all, err);
    }
    if (status == FED_OK && w->o.at_owners) {
        status = compare_locals(w, err);
    }
    if (status == FED_OK && tally != NULL) {
        memcpy(tally, all, w->workers * sizeof *all);
    }
    free(all);
    w->loss = 0;
    w->losses = 0;
    feddc_worker_enter(w, FEDDC_STARTING);
    return status;
}
