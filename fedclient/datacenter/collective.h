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
    uint32_t rank, ranks; /* all ranks, aggregators too */
    uint32_t workers;     /* ranks below this have gradients */
    uint32_t late;
    const double *param;
    const feddc_plan *plan;
    feddc_coder *push, *pull; /* coders of gradients and of final sums */
    /* 0: no NICs that compress; else their error exponent e. NICs round float32, so push and pull
     * are float32 then */
    int nic;
    const feddc_values *values; /* says whether gradients and sums lie in host or GPU memory */
    float *sum; /* values[plan->n]: a collective may put sums here, at their offset */
} feddc_collective_job;

typedef struct feddc_collective_vtable {
    uint8_t id; /* never changes; from collectives.def */
    const char *name, *about;
    const fed_param *params;
    /* partial sums are encoded again; a codec whose messages may be longer than the values is
     * refused */
    bool recodes;

    /** The plan is made with these two: the number of ranks beside the workers (NULL: 0), and the
     * shards of a bucket (NULL: 1). */
    uint32_t (*aggregators)(const double *param);
    uint32_t (*shards)(const double *param, uint32_t ranks);

    /** Make the collective's state. Errors: FED_EINVAL a codec that it cannot use; FED_ENOMEM */
    fed_status (*open)(const feddc_collective_job *job, void **self, fed_error *err);

    /** This rank's gradient of a bucket is ready. grad: values of the bucket, which may be read
     * until `taken` is called for this bucket and step. A bucket's steps follow one another:
     * begin for the next step is called only after this rank has taken all shards of the last
     * step (feddc_engine_done). Messages of the next step may arrive earlier. An aggregator gets
     * no begin. */
    fed_status (*begin)(void *self, uint32_t step, uint32_t bucket, const float *grad, bool plain,
                        fed_error *err);

    /** A message has arrived. The collective releases the event, now or later. FED_EFORMAT: the
     * message is wrong. */
    fed_status (*arrived)(void *self, const feddc_event *event, fed_error *err);

    /** A send no longer reads its data. May be NULL. */
    fed_status (*sent)(void *self, uint64_t token, fed_error *err);

    /** The caller has taken the sums of this bucket and step: the memory given to
     * feddc_engine_done may be used again. May be NULL. */
    fed_status (*taken)(void *self, uint32_t step, uint32_t bucket, fed_error *err);

    /** Look whether work without a message at its end, such as a reduction on a GPU, has ended.
     * May be NULL. The engine calls it before each wait. *under_way = true: such work goes on, so
     * the engine calls again soon. */
    fed_status (*poll)(void *self, bool *under_way, fed_error *err);

    /** For feddc_exchange_look: return the rank that this bucket waits for, or UINT32_MAX for
     * none. */
    uint32_t (*waits_for)(const void *self, uint32_t bucket);

    /** Free the state. The link is closed before this call. */
    void (*close)(void *self);
} feddc_collective_vtable;

/* -- What a collective calls -- */

fed_status feddc_engine_send(feddc_engine *engine, uint32_t to, const feddc_head *head,
                             const void *data, size_t len, uint64_t token,
                             fed_error *err) FED_CHECKED;
void feddc_engine_release(feddc_engine *engine, const feddc_event *event);

/** Report that the sum of a shard is complete. sum: values[shard.n], unchanged until `taken`. */
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

/** Parse a spec such as "ring" or "owners:aggregators=1". Errors: FED_EINVAL */
fed_status feddc_collective_parse(const char *spec, const feddc_collective_vtable **collective,
                                  double param[FEDDC_COLLECTIVE_PARAMS],
                                  fed_error *err) FED_CHECKED;

#endif
