/* Shared by the files of a worker: its struct and internal functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_WORKER_IMPL_H
#define FEDDC_WORKER_IMPL_H

#include "fedclient/datacenter/gpu_values.h"
#include "feddc/control.h"
#include "feddc/trace.h"
#include "feddc/worker.h"
#include "fedtrain/batches.h"
#include "fedtrain/optimizer.h"

struct feddc_worker {
    feddc_worker_options o;
    size_t n, states;      /* trained parameters; values of the optimizer's state */
    float *params, *state; /* the caller's memory */

    /* The memory of gradients and local weights: host memory, or that of the net's GPU. During a
     * run on a GPU, params and state are there too. */
    feddc_values values;
    /* values[n] each. Two arrays, if a sum may be on its way while the next gradient is computed;
     * else [1] equals [0]. */
    float *grad[2];
    float *own; /* this worker's gradient of the last step, for local weights; NULL: none */
    /* values[n]: sum of gradients that were not exchanged yet; NULL: exchange at every step */
    float *left;
    bool left_empty;
    /* values[layout.size]: local weights, or the replica, if the optimizer is at the owners; NULL:
     * neither is needed */
    float *local;
    float *memory; /* the allocation of grad, left and local */

    /* float32[n] in host memory, for feddc_worker_turn; without a GPU equal to grad[0] */
    float *words;
    /* float32[layout.size + states]: a copy of params and state to go back to; or NULL */
    float *spare;
    float *host;       /* the allocation of spare, and with a GPU of words */
    fed_error failure; /* the first failure in a callback that cannot return errors */

    feddc_exchange *x;
    uint32_t rank, workers;
    fedtrain_job part; /* for a text: the job on this rank's part of it */
    fedtrain_batches *batches;

    /* The exchanges of a generation are called turns, and are numbered from 0. */
    uint32_t turn;  /* number of exchanges put in */
    uint32_t taken; /* number of exchanges taken out */
    uint32_t due;   /* number of exchanges that must be taken out before the next step */
    bool taking;    /* exchange `taken` is being taken out, in the optimizer step `open` */
    fedtrain_open_step open;

    uint32_t step;         /* the next step */
    uint32_t completed;    /* params has the sums of exactly the steps before this one */
    uint32_t turn_step[2]; /* the step of turn k, at k % 2 */
    float turn_share[2];   /* factor that makes the sum of turn k a mean, at k % 2 */
    uint32_t run_step;     /* with a GPU: first step of the current run */
    feddc_act act;
    bool local_ready; /* `local` has the next step's weights already */
    fed_optimizer local_rule;
    fedtrain_open_step local_open;

    uint64_t walked; /* batches that all workers together took before base_step */
    uint32_t base_step;

    feddc_phase phase;
    uint64_t since; /* when the phase began, ns */
    uint32_t since_step;
    double phase_s[FEDDC_PHASES];
    double step_s, loss;
    uint64_t steps, losses;
    /* Counts of earlier generations, minus those of this generation's exchanges that belong to no
     * step. */
    feddc_exchange_counts earlier;

    /* An optimizer at the owners (worker_owner.c): */
    feddc_owner owner;
    bool stepped;          /* stepped_turn is valid */
    uint32_t stepped_turn; /* the last exchange that was counted in the state */
    bool taught;           /* the owners have been taught */
    bool whole;            /* params and state are complete */
    bool torn;        /* they are not, and `spare` has params, state and local of the last settle */
    uint64_t told;    /* digest of params and state when the owners were last asked */
    uint32_t reached; /* the owners have the sums of exactly the steps before this one */

    char *resume; /* path of the checkpoint whose file of this rank join reads; or NULL */
    char *counts; /* what that checkpoint says of all ranks' counters; or NULL */
    feddc_worker_tally before; /* counters of the training before that checkpoint, of this rank */
    /* number of checkpoints; its parity selects which of a rank's two files is written next */
    uint32_t saves;
    char remark[200];
};

/** Add the exchange's counts to `earlier` (sign 1), or subtract them (sign -1). */
void feddc_worker_count_in(feddc_worker *w, int sign);

/** What this rank has counted, also before a checkpoint that it went on from. */
feddc_worker_tally feddc_worker_tally_of(feddc_worker *w);

/** Add the members that count: all but the digest and the loss. */
void feddc_tally_add(feddc_worker_tally *sum, const feddc_worker_tally *more);

uint64_t feddc_worker_now(void); /* nanoseconds of CLOCK_MONOTONIC */

/** Begin this phase: add the last phase's time to phase_s, and report to trace and watch. */
void feddc_worker_enter(feddc_worker *w, feddc_phase phase);

/** Open w->values on the net's GPU, or on the host if the net has none. */
fed_status feddc_worker_find_device(feddc_worker *w, fed_error *err) FED_CHECKED;

static inline bool feddc_worker_on_gpu(const feddc_worker *w) {
    return w->values.gpu != NULL;
}

/** Copy values from host memory (up) or to it (down), and wait until they are copied. */
fed_status feddc_worker_up(const feddc_worker *w, float *there, const float *here, size_t n,
                           fed_error *err) FED_CHECKED;
fed_status feddc_worker_down(const feddc_worker *w, float *here, const float *there, size_t n,
                             fed_error *err) FED_CHECKED;

/** Keep the first failure until feddc_worker_failure returns it. */
void feddc_worker_note(feddc_worker *w, fed_status status);
fed_status feddc_worker_failure(feddc_worker *w, fed_error *err) FED_CHECKED;

/** Between begin and end, params and state are on the GPU. After a failure, with `elastic`, params
 * and state in host memory are as they were at begin, and w->completed is the step at begin.
 * Without a GPU these functions do nothing. */
fed_status feddc_worker_begin(feddc_worker *w, fed_error *err) FED_CHECKED;
fed_status feddc_worker_end(feddc_worker *w, fed_status status, fed_error *err) FED_CHECKED;

/** With an optimizer at the owners: make w->owner for a new exchange; at a run's begin teach the
 * owners what they do not know; in settle ask the owners for params and state; before a join go
 * back to the last settle. */
void feddc_worker_owner_open(feddc_worker *w);
fed_status feddc_worker_owner_begin(feddc_worker *w, fed_error *err) FED_CHECKED;
fed_status feddc_worker_owner_gather(feddc_worker *w, fed_error *err) FED_CHECKED;
void feddc_worker_owner_fall_back(feddc_worker *w);

/** Do the optimizer's step for these parameters. share: factor that makes the sum a mean. */
void feddc_worker_step_part(feddc_worker *w, size_t offset, size_t n, const float *sum,
                            float share);

/** Compute local weights on the GPU: the parameters less the local rate times this worker's
 * gradient. */
fed_status feddc_worker_descend(feddc_worker *w, fed_error *err) FED_CHECKED;

/** Run a pass on the GPU. `need` is called once, for all parameters; `done` gets device
 * addresses. */
fed_status feddc_worker_pass(feddc_worker *w, const fedtrain_batch *batch,
                             const fedtrain_sink *sink, float *loss, fed_error *err) FED_CHECKED;

/** Go back to the last completed step, and forget unfinished exchanges. */
void feddc_worker_fall_back(feddc_worker *w);

/** With the nic packet: test whether a NIC rounds what each rank sends. Rank 0 sets `remark` if a
 * NIC is missing. Errors: FED_ESTATE a NIC has a different error bound; those of
 * feddc_exchange_take */
fed_status feddc_worker_find_nics(feddc_worker *w, fed_error *err) FED_CHECKED;

/** Do one exchange: put in words[w->n], and take the first n values of the sum into y. No step's
 * counters include it. */
fed_status feddc_worker_turn(feddc_worker *w, bool plain, float *y, size_t n,
                             fed_error *err) FED_CHECKED;

/** Read this rank's file of the checkpoint that the worker resumes from, if it fits. */
fed_status feddc_worker_read_own(feddc_worker *w, fed_error *err) FED_CHECKED;

/** Write the options that residuals depend on, as text. */
void feddc_worker_plan_text(const feddc_worker *w, char *dst, size_t cap);

#endif
