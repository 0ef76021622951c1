/* A worker: trains one replica of a model, and exchanges its gradients with the other replicas. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_WORKER_H
#define FEDDC_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "feddc/exchange.h"
#include "feddc/sync.h"
#include "fedtrain/job.h"

FED_API_BEGIN

/*
 * Each rank of a worker group has a worker. All do the same calls in the same order:
 *
 *     feddc_worker_new(&options, params, state, &w, &err);
 *     feddc_worker_join(w, &place, &err);
 *     if (feddc_worker_sums_only(w)) { feddc_worker_serve(w, &err); ... an aggregator's end ... }
 *     while (there are steps to do) {
 *         feddc_worker_run(w, steps, &err);
 *         feddc_worker_settle(w, NULL, &err);     params: the same bits on all ranks
 *     }
 *     feddc_worker_free(w, true);
 *
 * Samples: with N workers, worker r takes batch t N + r of one walk at step t. So N workers with
 * batches of B see what one process with batches of N B sees. Of a text each worker reads its own
 * N-th.
 *
 * A gradient is put in layer by layer while the backward pass still runs; the next forward pass
 * waits layer by layer for the sums, and takes the optimizer's step of that layer. The mean of the
 * workers' gradients is the sum's N-th.
 *
 * If the net is on a GPU (fedtrain/device.h), so are gradients, sums and local weights, and during
 * feddc_worker_run parameters and state. There a pass begins when all sums are in. All workers of a
 * worker group have nets on GPUs, or none has.
 */
typedef struct feddc_worker feddc_worker;

struct feddc_watch; /* feddc/control.h */

typedef struct feddc_worker_options {
    /* link, collective, codec, pull, nic, small, bucket, late, trace; the worker fills in the
     * others. Strings must outlive the worker. */
    feddc_exchange_options exchange;
    feddc_sync sync;
    double local_rate; /* of local weights (odsgd, cdsgd); 0: the optimizer's own */

    const fed_arch *arch; /* of the net; outlives the worker */

    /* net (which outlives the worker), optimizer, set and shard or token, batch, seed, augment.
     * `after_step` is called with the step's number and this rank's own loss; what it returns is
     * not read. */
    fedtrain_job job;

    bool elastic; /* keep a copy of the last whole step, on a GPU of the last run's begin, so that
                   * join can be called again after a rank has failed */
    struct feddc_watch *watch; /* NULL, or who is told of each phase; outlives the worker */
} feddc_worker_options;

/**
 * A worker that has joined no worker group yet.
 *
 * params  float32[layout.size], in and out: the first weights, the same on all ranks. Complete
 *         between calls, and after feddc_worker_settle the same bits on all ranks
 * state   float32[fedtrain_optimizer_state_size], in and out
 * Errors  FED_EINVAL the rule has no use for the codec; an optimizer that needs what a worker does
 *         not have: the whole gradient (clip:norm), the mean loss (stall), rounds (scaffold);
 *         FED_ENOMEM
 */
fed_status feddc_worker_new(const feddc_worker_options *options, float *params, float *state,
                            feddc_worker **worker, fed_error *err) FED_CHECKED;

/**
 * Meet the other ranks, open the exchange, and bring all replicas to one step: who is behind gets
 * parameters, state and step from one ahead. Call it once; with `elastic` again after a call has
 * failed with FED_EIO, with the place in the worker group that is left. Then the last whole step
 * stands, and residuals, local weights and gradients under way are lost.
 *
 * Errors  feddc_exchange_open's; FED_ESTATE another rank has other weights at the same step, or
 *         other options, or a NIC has another bound than the nic: the sentence names it
 */
fed_status feddc_worker_join(feddc_worker *w, const feddc_place *place, fed_error *err) FED_CHECKED;

/** This rank is an aggregator: it has no gradients. feddc_worker_serve returns when the workers
 * have closed. */
bool feddc_worker_sums_only(const feddc_worker *w);
fed_status feddc_worker_serve(feddc_worker *w, fed_error *err) FED_CHECKED;

/** Take the next steps. When it returns, params has all sums; a run in two halves leaves the bits
 * of one. Errors: feddc_exchange_take's, fedtrain_net_gradient_to's */
fed_status feddc_worker_run(feddc_worker *w, uint32_t steps, fed_error *err) FED_CHECKED;

/** Steps that the worker group has taken; of these, those whose sums are all in, which is as many
 * unless a call has failed; and the rank and the number of workers. */
uint32_t feddc_worker_step(const feddc_worker *w);
uint32_t feddc_worker_completed(const feddc_worker *w);
uint32_t feddc_worker_rank(const feddc_worker *w);
uint32_t feddc_worker_count(const feddc_worker *w);

/** What a worker has done. Seconds and bytes are of its steps, without what settle and the like
 * exchange. All members have 64 bits. */
typedef struct feddc_worker_tally {
    uint64_t digest; /* fed_digest of all parameters */
    uint64_t steps;
    double loss;                                  /* mean of its own, since the last settle */
    double step_s;                                /* wall time */
    double forward_s, backward_s;                 /* without waiting */
    double update_s;                              /* optimizer and local weights */
    double exposed_s;                             /* it waited for sums */
    double exchange_s, encode_s, decode_s, sum_s; /* of feddc_exchange_counts */
    uint64_t sent_bytes, received_bytes, messages;
    uint64_t zeroed, coded;
} feddc_worker_tally;

/**
 * Make the running statistics of batch normalization the mean of all ranks', and check that all
 * replicas have the same bits.
 *
 * tally   feddc_worker_tally[count], of each worker; NULL: not wanted
 * Errors  FED_ESTATE a replica differs: the sentence names it; feddc_exchange_take's
 */
fed_status feddc_worker_settle(feddc_worker *w, feddc_worker_tally *tally,
                               fed_error *err) FED_CHECKED;

/** data[bytes] of rank `from` becomes that of all. bytes is even. */
fed_status feddc_worker_share(feddc_worker *w, uint32_t from, void *data, size_t bytes,
                              fed_error *err) FED_CHECKED;

/** all[r * bytes] = rank r's own[bytes]. bytes is even. */
fed_status feddc_worker_gather(feddc_worker *w, const void *own, size_t bytes, void *all,
                               fed_error *err) FED_CHECKED;

/* -- Checkpoints -- */

/*
 * A checkpoint is one safetensors file with what all ranks have in common, and for each rank that
 * has something of its own (residuals, local weights, a gradient that is not exchanged yet) a file
 * PATH.rank-R-0 or PATH.rank-R-1. The common file names which of the two; it is written last, so
 * that a crash at any instant leaves a whole checkpoint.
 */

/**
 * Write one. layout and values are those of the common file: params and state. notes: key, value,
 * ..., NULL, beside those of the worker ("worker.step" and others). Call it after settle.
 */
fed_status feddc_worker_save(feddc_worker *w, const char *path, const fed_layout *layout,
                             const float *values, const char *const *notes,
                             fed_error *err) FED_CHECKED;

/**
 * Go on from a checkpoint: before join. values: params and state must lie in it. What is of this
 * rank alone is read by join; it is dropped if the worker group or the exchange is another one.
 * Errors: FED_ENOTFOUND no such file; FED_EFORMAT; fed_checkpoint_open's
 */
fed_status feddc_worker_resume(feddc_worker *w, const char *path, const fed_layout *layout,
                               float *values, fed_error *err) FED_CHECKED;

/** What join found that somebody should know: residuals that were dropped; on rank 0, a network
 * NIC that is missing. "" if there is nothing. */
const char *feddc_worker_remark(const feddc_worker *w);

/** Leave the worker group and free. orderly as in feddc_exchange_close. NULL is allowed. */
void feddc_worker_free(feddc_worker *w, bool orderly);

FED_API_END

#endif
