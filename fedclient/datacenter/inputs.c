/* Add messages in a fixed order of ranks, though they arrive in any order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "fedcodec/bursts.h"

enum { CHUNK = 4096 }; /* values summed at a time, so that they stay in the first-level cache */

fed_status feddc_inputs_make(feddc_inputs *in, const uint32_t *rank, uint32_t count) {
    *in = (feddc_inputs){.count = count};
    in->rank = malloc((count > 0 ? count : 1) * sizeof *in->rank);
    in->pending = calloc(count > 0 ? count : 1, sizeof *in->pending);
    if (in->rank == NULL || in->pending == NULL) {
        return FED_ENOMEM;
    }
    memcpy(in->rank, rank, count * sizeof *rank);
    return FED_OK;
}

void feddc_inputs_free(feddc_inputs *in) {
    for (uint32_t k = 0; in->pending != NULL && k < in->count; k++) {
        feddc_pending_free(&in->pending[k]);
    }
    free(in->pending);
    free(in->rank);
    *in = (feddc_inputs){0};
}

fed_status feddc_inputs_keep(feddc_inputs *in, const feddc_event *event, fed_error *err) {
    for (uint32_t k = 0; k < in->count; k++) {
        if (in->rank[k] == event->peer) {
            return feddc_pending_add(&in->pending[k], event, err);
        }
    }
    return fed_fail(err, FED_EFORMAT,
                    "rank %u sent its part of bucket %u, shard %u, which this rank does not sum: "
                    "give all ranks the same options",
                    event->peer, event->head.bucket, event->head.part);
}

uint32_t feddc_inputs_missing(const feddc_inputs *in) {
    return in->added < in->count ? in->rank[in->added] : UINT32_MAX;
}

fed_status feddc_check_plain(uint32_t step, bool plain, const feddc_event *event, fed_error *err) {
    if (((event->head.flags & FEDDC_PLAIN) != 0) == plain) {
        return FED_OK;
    }
    return fed_fail(err, FED_EFORMAT,
                    "rank %u exchanges step %u %s, and this rank does not: give all ranks the same "
                    "rule",
                    event->peer, step, plain ? "coded" : "as float32");
}

fed_status feddc_blame(uint32_t rank, fed_status status, fed_error *err) {
    if (status == FED_OK) {
        return FED_OK;
    }
    fed_error why = *err;
    return fed_fail(err, status, "rank %u: %s", rank, why.text);
}

uint8_t feddc_flags(const feddc_collective_job *job, const feddc_coder *coder,
                    const feddc_shard *shard, bool plain) {
    const bool floats = feddc_coder_is_raw(coder, shard, plain) && (job->nic == 0 || !plain);
    return (uint8_t)((floats ? (unsigned)FEDDC_FLOATS : 0u) | (plain ? (unsigned)FEDDC_PLAIN : 0u));
}

void feddc_round(const feddc_collective_job *job, const feddc_turn *turn, const float *x,
                 float *y) {
    if (!feddc_nic_rounds(job, turn->plain)) {
        return;
    }
    const uint64_t begin = feddc_engine_ns();
    fedcodec_bursts_round(job->nic, x, y, turn->shard->n);
    feddc_engine_spent(job->engine, FEDDC_ENCODE, turn->step, turn->bucket,
                       turn->shard->n * sizeof *y, begin);
}

enum { FEW = 8 };

typedef struct batch {
    uint32_t count;
    bool own[FEW];
    const uint8_t *data[FEW];
    size_t len[FEW];
    feddc_event event[FEW];
} batch;

static fed_status collect(feddc_inputs *in, const feddc_collective_job *job, const feddc_turn *turn,
                          const void *own, size_t own_len, batch *b, fed_error *err) {
    b->count = 0;
    while (b->count < FEW && in->added + b->count < in->count) {
        uint32_t k = in->added + b->count;
        feddc_event *event = &b->event[b->count];
        b->own[b->count] = in->rank[k] == job->rank;
        if (b->own[b->count]) {
            event->data = own;
            event->len = own_len;
        } else if (feddc_pending_take(&in->pending[k], turn->step, event)) {
            FED_TRY(feddc_check_plain(turn->step, turn->plain, event, err));
        } else {
            break;
        }
        b->data[b->count] = event->data;
        b->len[b->count] = event->len;
        b->count++;
    }
    return FED_OK;
}

static fed_status add_raw_on_gpu(const batch *b, const feddc_values *v, bool first, size_t n,
                                 float *sum) {
    for (uint32_t k = 0; k < b->count; k++) {
        const bool set = first && k == 0;
        FED_TRY(b->own[k]
                    ? feddc_values_use(v, set, sum, (const float *)(const void *)b->data[k], n)
                    : feddc_values_use_bytes(v, set, sum, b->data[k], n));
    }
    return feddc_values_wait(v);
}

/* On the host, add one chunk of each float32 input, then the next chunk. */
static fed_status add_raw(const batch *b, const feddc_values *v, bool first, size_t n, float *sum,
                          fed_error *err) {
    for (uint32_t k = 0; k < b->count; k++) {
        if (b->len[k] != n * sizeof *sum) {
            return fed_fail(err, FED_EFORMAT,
                            "rank %u sent a message of %zu bytes for a shard of %zu float32 values",
                            b->event[k].peer, b->len[k], n);
        }
    }
    if (v->gpu != NULL) {
        return feddc_values_explain(v, add_raw_on_gpu(b, v, first, n, sum), err);
    }
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t count = n - at < CHUNK ? n - at : CHUNK;
        for (uint32_t k = 0; k < b->count; k++) {
            const float *x = (const float *)(const void *)b->data[k] + at;
            if (first && k == 0) {
                memcpy(sum + at, x, count * sizeof *sum);
                continue;
            }
            for (size_t i = 0; i < count; i++) {
                sum[at + i] += x[i];
            }
        }
    }
    return FED_OK;
}

static fed_status add_one(const batch *b, uint32_t k, const feddc_collective_job *job,
                          const feddc_turn *turn, bool set, bool own_plain, float *sum,
                          fed_error *err) {
    if (b->own[k] && own_plain) {
        const float *x = (const float *)(const void *)b->data[k];
        return feddc_values_explain(
            job->values, feddc_values_use(job->values, set, sum, x, turn->shard->n), err);
    }
    const uint32_t rank = b->own[k] ? job->rank : b->event[k].peer;
    const bool plain = !b->own[k] && turn->plain;
    return feddc_blame(rank,
                       (set ? feddc_coder_decode : feddc_coder_add)(
                           job->push, turn->shard, plain, b->data[k], b->len[k], sum, err),
                       err);
}

static fed_status add_coded(const batch *b, const feddc_collective_job *job, const feddc_turn *turn,
                            bool own_plain, bool first, float *sum, fed_error *err) {
    for (uint32_t k = 0; k < b->count; k++) {
        FED_TRY(add_one(b, k, job, turn, first && k == 0, own_plain, sum, err));
    }
    return feddc_values_explain(job->values, feddc_values_wait(job->values), err);
}

fed_status feddc_inputs_add(feddc_inputs *in, const feddc_collective_job *job,
                            const feddc_turn *turn, const void *own, size_t own_len, bool own_plain,
                            float *sum, fed_error *err) {
    bool raw = feddc_coder_is_raw(job->push, turn->shard, turn->plain);
    batch b = {.count = 1};
    while (b.count > 0) {
        FED_TRY(collect(in, job, turn, own, own_len, &b, err));
        uint64_t begin = feddc_engine_ns();
        FED_TRY(raw ? add_raw(&b, job->values, in->added == 0, turn->shard->n, sum, err)
                    : add_coded(&b, job, turn, own_plain, in->added == 0, sum, err));
        for (uint32_t k = 0; k < b.count; k++) {
            if (!b.own[k]) {
                feddc_engine_release(job->engine, &b.event[k]);
            }
        }
        in->added += b.count;
        if (b.count > 0) {
            feddc_engine_spent(job->engine, raw ? FEDDC_SUM : FEDDC_DECODE, turn->step,
                               turn->bucket, b.count * turn->shard->n * sizeof *sum, begin);
        }
    }
    return FED_OK;
}
