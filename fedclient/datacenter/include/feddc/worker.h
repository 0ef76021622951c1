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
 * Each rank of a worker group has a worker. All ranks make the same calls in the same order:
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
 * Samples: with N workers, worker r takes batch t N + r of the shuffled data set at step t. So N
 * workers with batches of B samples see the same samples as one process with batches of N B. A
 * text is divided into N parts, one for each worker.
 *
 * A gradient is put in layer by layer while the backward pass still runs. The next forward pass
 * waits layer by layer for the sums, and does the optimizer's step of that layer. The optimizer
 * gets the mean gradient: the sum divided by the number of workers in it, N or N - late.
 *
 * With `at_owners` each rank computes with a replica, which only pulls change; params and state are
 * those of the owners, and are complete after feddc_worker_settle, not after feddc_worker_run. Push
 * residuals, pull residuals (params less replica) and state are in a checkpoint. When a rank has
 * failed, the others go back to the last settle.
 *
 * If the net is on a GPU (fedtrain/device.h), gradients, sums and local weights are there too, and
 * during feddc_worker_run also parameters and state. On a GPU a forward pass begins when all sums
 * that it needs have arrived. Either all workers of a worker group have nets on GPUs, or none has.
 */
typedef struct feddc_worker feddc_worker;

struct feddc_watch; /* feddc/control.h */

typedef struct feddc_worker_options {
    /* The caller fills in link, collective, codec, pull, nic, small, bucket, late and trace, the
     * worker the others, `owner` among them. Strings must outlive the worker. */
    feddc_exchange_options exchange;
    feddc_sync sync;
    /* The owners step the optimizer, and pulls are changes of the model: feddc_owner. Only with the
     * rules bitsgd and local, and with the collective owners */
    bool at_owners;
    double local_rate; /* learning rate of local weights (odsgd, cdsgd); 0: the optimizer's rate */

    const fed_arch *arch; /* the net's architecture; must outlive the worker */

    /* The caller fills in net (must outlive the worker), optimizer, set and shard or token, batch,
     * seed, augment. `after_step` gets the step's number and this rank's own loss; its result is
     * not read. */
    fedtrain_job job;

    /* keep a copy of params and state at the last complete step (on a GPU: at the last run's begin;
     * with at_owners: at the last settle), for another join after a rank has failed */
    bool elastic;
    struct feddc_watch *watch; /* gets reports of phases; or NULL; must outlive the worker */

    /* NULL, or called before each step: false ends the run before this step, which is no error. All
     * ranks must end before the same step. */
    bool (*may_begin)(void *user, uint32_t step);
    void *user; /* first argument of may_begin */
} feddc_worker_options;

/**
 * Make a worker that has joined no worker group yet.
 *
 * params  float32[layout.size], in and out: the first weights, the same on all ranks. Complete
 *         between calls, and after feddc_worker_settle the same bits on all ranks
 * state   float32[fedtrain_optimizer_state_size], in and out
 * Errors  FED_EINVAL the rule has no use for the codec, pull or nic; an optimizer that needs what a
 *         worker does not have: the whole gradient (clip:norm), the mean loss (stall), rounds
 *         (scaffold, mask); FED_ENOMEM
 */
fed_status feddc_worker_new(const feddc_worker_options *options, float *params, float *state,
                            feddc_worker **worker, fed_error *err) FED_CHECKED;

/**
 * Connect with the other ranks, open the exchange, and bring all replicas to the same step: ranks
 * behind get parameters, state and step from a rank ahead. Call it once. With `elastic`, call it
 * again after a call has failed with FED_EIO, with the new place in the worker group. The worker
 * then goes back to its last complete step; residuals, local weights and unfinished gradients are
 * lost.
 *
 * Errors as of feddc_exchange_open and feddc_exchange_take; FED_ESTATE a rank has different weights
 * at the same step or different options, or a NIC has a different error bound than the option nic:
 * the error's text names it
 */
fed_status feddc_worker_join(feddc_worker *w, const feddc_place *place, fed_error *err) FED_CHECKED;

/** Return whether this rank is an aggregator, which has no gradients. An aggregator calls
 * feddc_worker_serve, which returns when all workers have left. */
bool feddc_worker_sums_only(const feddc_worker *w);
fed_status feddc_worker_serve(feddc_worker *w, fed_error *err) FED_CHECKED;

/** Train the next steps: fewer only if may_begin ends the run. On return params contains all sums,
 * except with at_owners. Two runs of n steps give the same bits as one of 2 n steps. Errors: as of
 * feddc_exchange_take and fedtrain_net_gradient_to */
fed_status feddc_worker_run(feddc_worker *w, uint32_t steps, fed_error *err) FED_CHECKED;

/** step: the number of steps of the worker group. completed: the number of steps whose sums
 * params contains; less than step between the exchanges of the rule local, and perhaps after a
 * failed call. rank: this worker's rank. count: the number of workers. */
uint32_t feddc_worker_step(const feddc_worker *w);
uint32_t feddc_worker_completed(const feddc_worker *w);
uint32_t feddc_worker_rank(const feddc_worker *w);
uint32_t feddc_worker_count(const feddc_worker *w);

/** The number of batches that all workers together have taken, also before the worker group changed
 * its size. */
uint64_t feddc_worker_walked(const feddc_worker *w);

/** A worker's results. Seconds and bytes count its steps only, not settle, share and gather. Steps,
 * seconds and counts are those of the whole training: a checkpoint has those before it. All members
 * have 64 bits. */
typedef struct feddc_worker_tally {
    uint64_t digest; /* fed_digest of all parameters */
    uint64_t steps;
    double loss;                  /* mean of this worker's loss since the last settle */
    double step_s;                /* wall-clock time */
    double forward_s, backward_s; /* without waiting and updates */
    double update_s;              /* time for optimizer and local weights */
    double exposed_s;             /* time of waiting for sums */
    double exchange_s, encode_s, decode_s, sum_s; /* as in feddc_exchange_counts */
    uint64_t sent_bytes, received_bytes, messages;
    uint64_t zeroed, coded, spread[FEDDC_SPREAD];
} feddc_worker_tally;

/**
 * Make the running statistics of batch normalization the mean of all ranks', and check that all
 * replicas have the same bits.
 *
 * tally   feddc_worker_tally[count], of each worker; NULL: not wanted
 * Errors  FED_ESTATE a replica differs: the error's text names it; feddc_exchange_take's
 */
fed_status feddc_worker_settle(feddc_worker *w, feddc_worker_tally *tally,
                               fed_error *err) FED_CHECKED;

/** Copy data[bytes] of rank `from` to all ranks. bytes must be even. */
fed_status feddc_worker_share(feddc_worker *w, uint32_t from, void *data, size_t bytes,
                              fed_error *err) FED_CHECKED;

/** Copy own[bytes] of each rank r to all + r * bytes, on all ranks. bytes must be even. */
fed_status feddc_worker_gather(feddc_worker *w, const void *own, size_t bytes, void *all,
                               fed_error *err) FED_CHECKED;

/* -- Checkpoints -- */

/*
 * A checkpoint is one safetensors file with the values that all ranks have in common. A rank with
 * values of its own (residuals, local weights, a gradient not yet exchanged) also has a file
 * PATH.rank-R-0 or PATH.rank-R-1. The common file says which of the two is valid. The common file
 * is written last, so that a crash at any time leaves a complete checkpoint.
 */

/** Write a checkpoint; call it after feddc_worker_settle. layout and values are those of the common
 * file: params and state. notes: key, value, ..., NULL; the worker adds its own ("worker.step" and
 * others). */
fed_status feddc_worker_save(feddc_worker *w, const char *path, const fed_layout *layout,
                             const float *values, const char *const *notes,
                             fed_error *err) FED_CHECKED;

/**
 * Load a checkpoint; call it before join. params and state must lie in `values`. join reads this
 * rank's own file, but drops its values if the worker group or the options of the exchange have
 * changed. Errors: FED_ENOTFOUND no such file; FED_EFORMAT; fed_checkpoint_open's
 */
fed_status feddc_worker_resume(feddc_worker *w, const char *path, const fed_layout *layout,
                               float *values, fed_error *err) FED_CHECKED;

/** A sentence for the user about what join found: dropped residuals or, on rank 0, a missing packet
 * NIC. "": nothing. */
const char *feddc_worker_remark(const feddc_worker *w);

/** Leave the worker group and free. orderly as in feddc_exchange_close. NULL is allowed. */
void feddc_worker_free(feddc_worker *w, bool orderly);

FED_API_END

#endif
