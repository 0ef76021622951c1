/* A collective: how the gradients of a worker group become one sum. A state machine that never
 * blocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_COLLECTIVE_H
#define FEDDC_COLLECTIVE_H

#include "fed/params.h"
#include "fedclient/datacenter/coder.h"
#include "fedclient/datacenter/plan.h"
#include "feddc/link.h"
#include "feddc/trace.h"

enum { FEDDC_COLLECTIVE_PARAMS = 2 };

/** What the engine does for a collective. All of it happens in the engine's thread. */
typedef struct feddc_engine feddc_engine;

/** What a collective works with. It outlives the collective. */
typedef struct feddc_collective_job {
    feddc_engine *engine;
    uint32_t rank, ranks; /* all, with aggregators */
    uint32_t workers;     /* ranks below this have gradients */
    uint32_t late;
    const double *param;
    const feddc_plan *plan;
    feddc_coder *push, *pull; /* pull: of the final sums */
    int nic; /* 0: none; else their e: they round float32, which push and pull are then */
    const feddc_values *values; /* where gradients and sums live */
    float *sum; /* values[plan->n]: a collective may put sums here, at their offset */
} feddc_collective_job;

typedef struct feddc_collective_vtable {
    uint8_t id; /* permanent; collectives.def */
    const char *name, *about;
    const fed_param *params;
    bool recodes; /* partial sums are coded again: takes no codec that can expand */

    /** Ranks beside the workers (NULL: 0), and shards of a bucket (NULL: 1): the plan is made with
     * these. */
    uint32_t (*aggregators)(const double *param);
    uint32_t (*shards)(const double *param, uint32_t ranks);

    /** Values that pull->residual must hold on this rank: those of the shards whose sums it codes.
     * */
    fed_status (*open)(const feddc_collective_job *job, void **self, fed_error *err);

    /** This rank's gradient of a bucket is ready. grad: values of the bucket, to read until the
     * bucket of this step is taken. Of one bucket the steps come one after the other: the next
     * one's begin comes after all shards of the last one were taken (feddc_engine_done) here.
     * Messages of the next step may come earlier. An aggregator has no begin. */
    fed_status (*begin)(void *self, uint32_t step, uint32_t bucket, const float *grad, bool plain,
                        fed_error *err);

    /** A message. The collective releases the event, now or later. Bad messages: FED_EFORMAT. */
    fed_status (*arrived)(void *self, const feddc_event *event, fed_error *err);

    /** NULL, or the data of a send is free again. */
    fed_status (*sent)(void *self, uint64_t token, fed_error *err);

    /** NULL, or the caller has taken this bucket of this step: what was given to feddc_engine_done
     * is free. */
    fed_status (*taken)(void *self, uint32_t step, uint32_t bucket, fed_error *err);

    /** NULL, or looks whether work has ended that no message tells of. The engine calls it before
     * each wait. *under_way: some has not, so the engine looks again soon. */
    fed_status (*poll)(void *self, bool *under_way, fed_error *err);

    /** For feddc_exchange_look: the rank that this bucket waits for; UINT32_MAX: none. */
    uint32_t (*waits_for)(const void *self, uint32_t bucket);

    /** The link is closed already. */
    void (*close)(void *self);
} feddc_collective_vtable;

/* -- What a collective calls -- */

fed_status feddc_engine_send(feddc_engine *engine, uint32_t to, const feddc_head *head,
                             const void *data, size_t len, uint64_t token,
                             fed_error *err) FED_CHECKED;
void feddc_engine_release(feddc_engine *engine, const feddc_event *event);

/** The sum of a shard is there, values[shard.n]; it stays as it is until `taken`. */
void feddc_engine_done(feddc_engine *engine, uint32_t step, uint32_t bucket, uint32_t shard,
                       const float *sum);

/** Nanoseconds of a clock that never goes back. */
uint64_t feddc_engine_ns(void);

/** The engine's thread was busy from `begin` until now: FEDDC_ENCODE, FEDDC_DECODE, FEDDC_SUM,
 * FEDDC_COPY or FEDDC_WAIT. */
void feddc_engine_spent(feddc_engine *engine, feddc_what what, uint32_t step, uint32_t bucket,
                        size_t bytes, uint64_t begin);

/** The collectives of collectives.def; NULL past the last. */
const feddc_collective_vtable *feddc_collective_at(size_t k);

/** "ring", "owners:aggregators=1". Errors: FED_EINVAL */
fed_status feddc_collective_parse(const char *spec, const feddc_collective_vtable **collective,
                                  double param[FEDDC_COLLECTIVE_PARAMS],
                                  fed_error *err) FED_CHECKED;

#endif
