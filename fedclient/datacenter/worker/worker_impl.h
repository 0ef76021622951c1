/* What the files of a worker share. */
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
    size_t n, states;      /* trained parameters; the optimizer's state */
    float *params, *state; /* the caller's */

    /* Gradients and local weights are values: with a net on a GPU they are there, and while a run
     * lasts params and state are there too. */
    feddc_values values;
    float *grad[2]; /* values[n]; two if a sum may still be on its way while the next gradient is
                     * computed, else [1] is [0] */
    float *own;     /* the gradient of the step before; NULL: none that local weights lack */
    float *left;    /* values[n]: gradients that were not put in; NULL: the rule has none */
    bool left_empty;
    float *local;  /* values[layout.size]: local weights; NULL: the rule has none */
    float *memory; /* all of these */

    float *words; /* float32[n] of the host: what workers say; on the host it is grad[0] */
    float *spare; /* float32[layout.size + states]: params and state as of `completed`; NULL: not
                     * elastic */
    float *host;  /* these two */
    fed_error failure; /* of a call on the GPU that could not return it */

    feddc_exchange *x;
    uint32_t rank, workers;
    fedtrain_job part; /* the job on this rank's part of a text */
    fedtrain_batches *batches;

    /* Turns number the exchanges, from 0 in each generation. */
    uint32_t turn;  /* exchanges that were put in */
    uint32_t taken; /* of these, taken out */
    uint32_t due;   /* of these, that must be taken out before the next step */
    bool taking;    /* exchange `taken` is being taken out: `open` is its optimizer step */
    fedtrain_open_step open;

    uint32_t step;         /* the next one */
    uint32_t completed;    /* params has the sums of the steps before this one, and no others */
    uint32_t turn_step[2]; /* the step of turn k, at k % 2 */
    float turn_share[2];   /* what makes its sum a mean */
    uint32_t run_step;     /* the first one of the run under way, on a GPU */
    feddc_act act;         /* of the step under way */
    bool local_ready;      /* `local` is that of the next step already */
    fed_optimizer local_rule;
    fedtrain_open_step local_open;

    uint64_t walked;    /* batches of the common walk before base_step */
    uint32_t base_step; /* the first step of this generation */

    feddc_phase phase;
    uint64_t since;      /* when the phase began, ns */
    uint32_t since_step; /* and in which step */
    double phase_s[FEDDC_PHASES];
    double step_s, loss;
    uint64_t steps, losses;
    feddc_exchange_counts earlier; /* of earlier generations, less what was no step's of this one */

    char *resume;   /* a checkpoint's path: join reads this rank's file */
    uint32_t saves; /* which of both files of a rank is next, modulo 2 */
    char remark[200];
};

/* ---- worker_join.c ---- */

/** Add what the exchange has counted so far to `earlier`, or take it off: sign 1 or -1. */
void feddc_worker_count_in(feddc_worker *w, int sign);

/* ---- worker_step.c ---- */

uint64_t feddc_worker_now(void); /* ns */

/** The main thread's phase is now this one. */
void feddc_worker_enter(feddc_worker *w, feddc_phase phase);

/* ---- worker_device.c: with a net on a GPU ---- */

/** values of the net's device, or the host's. */
fed_status feddc_worker_find_device(feddc_worker *w, fed_error *err) FED_CHECKED;

static inline bool feddc_worker_on_gpu(const feddc_worker *w) {
    return w->values.gpu != NULL;
}

/** Values from and to the host's memory, at once. */
fed_status feddc_worker_up(const feddc_worker *w, float *there, const float *here, size_t n,
                           fed_error *err) FED_CHECKED;
fed_status feddc_worker_down(const feddc_worker *w, float *here, const float *there, size_t n,
                             fed_error *err) FED_CHECKED;

/** Keep a failure until feddc_worker_failure tells it. */
void feddc_worker_note(feddc_worker *w, fed_status status);
fed_status feddc_worker_failure(feddc_worker *w, fed_error *err) FED_CHECKED;

/** From begin to end params and state are on the GPU. After a failure the host's are those of
 * begin, and so is w->whole. On the host: nothing. */
fed_status feddc_worker_begin(feddc_worker *w, fed_error *err) FED_CHECKED;
fed_status feddc_worker_end(feddc_worker *w, fed_status status, fed_error *err) FED_CHECKED;

/** The optimizer's step of these parameters with this sum. */
void feddc_worker_step_part(feddc_worker *w, size_t offset, size_t n, const float *sum,
                            float share);

/** Local weights are the parameters, less the own gradient, if there is one. */
fed_status feddc_worker_descend(feddc_worker *w, fed_error *err) FED_CHECKED;

/** A pass on the GPU. `need` is called once, for all parameters; `done` is told of values. */
fed_status feddc_worker_pass(feddc_worker *w, const fedtrain_batch *batch,
                             const fedtrain_sink *sink, float *loss, fed_error *err) FED_CHECKED;

/* ---- worker_step.c, more ---- */

/** The last whole step again: what was under way is forgotten. */
void feddc_worker_fall_back(feddc_worker *w);

/* ---- worker_nics.c ---- */

/** With the nic packet: does each rank's card round? Rank 0 remarks on a missing one. Errors:
 * FED_ESTATE a card has another bound; feddc_exchange_take's */
fed_status feddc_worker_find_nics(feddc_worker *w, fed_error *err) FED_CHECKED;

/* ---- worker_talk.c ---- */

/** One exchange: grad[0][w->n] goes in, y[n] comes out; n <= w->n. It counts as no step's. */
fed_status feddc_worker_turn(feddc_worker *w, bool plain, float *y, size_t n,
                             fed_error *err) FED_CHECKED;

/* ---- worker_save.c ---- */

/** Read this rank's file of the checkpoint that the worker resumes from, if it fits. */
fed_status feddc_worker_read_own(feddc_worker *w, fed_error *err) FED_CHECKED;

/** What residuals depend on, as text. */
void feddc_worker_plan_text(const feddc_worker *w, char *dst, size_t cap);

#endif
