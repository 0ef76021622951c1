/* A collective sums the gradients of a worker group. It is a state machine that never blocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_COLLECTIVE_H
#define FEDDC_COLLECTIVE_H

#include "fed/params.h"
#include "fedclient/datacenter/coder.h"
#include "fedclient/datacenter/plan.h"
#include "feddc/exchange.h"
#include "feddc/link.h"
#include "feddc/trace.h"

enum { FEDDC_COLLECTIVE_PARAMS = 2 };

/** The engine calls a collective's functions from `begin` to `waits_for` in the engine's thread.
 * Only there, a collective calls the feddc_engine functions below. */
typedef struct feddc_engine feddc_engine;

typedef struct feddc_collective_job {
    feddc_engine *engine;
    uint32_t rank, ranks; /* all ranks, aggregators too */
    uint32_t workers;     /* ranks below this have gradients */
    uint32_t late;        /* with backup workers: most gradients that a sum may lack; else 0 */
    const double *param;
    const feddc_plan *plan;
    feddc_coder *push, *pull;
    /* 0: no NICs compress; else their error bound is 2^-nic, and push and pull are float32 */
    int nic;
    const feddc_values *values;
    float *sum;               /* [plan->n]: room for sums, each at its shard's offset */
    const feddc_owner *owner; /* steps that are not plain change its weights; NULL: they don't */
    float *replica;           /* [plan->n], with an owner: the model that all ranks have */
} feddc_collective_job;

typedef struct feddc_collective_vtable {
    uint8_t id; /* never changes; from collectives.def */
    const char *name, *about;
    const fed_param *params;
    /* partial sums are encoded again at each hop, so codecs of feddc_codec_expands are refused */
    bool recodes;
    bool owned; /* one rank has the whole sum of a shard, and may make a model of it: job.owner */

    /** Return the number of ranks beside the workers (NULL: 0), and the number of shards in a
     * bucket (NULL: 1). */
    uint32_t (*aggregators)(const double *param);
    uint32_t (*shards)(const double *param, uint32_t ranks);

    /** Make the collective's state. Errors: FED_EINVAL a codec that it cannot use; FED_ENOMEM */
    fed_status (*open)(const feddc_collective_job *job, void **self, fed_error *err);

    /** This rank's gradient of a bucket is ready. grad may be read until all sums of this bucket
     * and step are complete. The bucket's next `begin` comes only after they were taken.
     * Messages of the next step may arrive earlier. An aggregator gets no begin. */
    fed_status (*begin)(void *self, uint32_t step, uint32_t bucket, const float *grad, bool plain,
                        fed_error *err);

    /** A message has arrived. The collective releases the event, now or later.
     * FED_EFORMAT: the message is not as it should be. */
    fed_status (*arrived)(void *self, const feddc_event *event, fed_error *err);

    /** A send no longer reads its data. May be NULL. */
    fed_status (*sent)(void *self, uint64_t token, fed_error *err);

    /** The caller has taken the sums of this bucket and step: the memory given to feddc_engine_done
     * may be used again. May be NULL. */
    fed_status (*taken)(void *self, uint32_t step, uint32_t bucket, fed_error *err);

    /** Check whether work that ends without a message, such as a reduction on a GPU, has ended.
     * *under_way: such work still runs, so the engine calls poll again soon. May be NULL. */
    fed_status (*poll)(void *self, bool *under_way, fed_error *err);

    /** The rank that this bucket waits for, or UINT32_MAX for none (for feddc_exchange_look). */
    uint32_t (*waits_for)(const void *self, uint32_t bucket);

    /** Called when the link reads none of the collective's memory any more. */
    void (*close)(void *self);
} feddc_collective_vtable;

fed_status feddc_engine_send(feddc_engine *engine, uint32_t to, const feddc_head *head,
                             const void *data, size_t len, uint64_t token,
                             fed_error *err) FED_CHECKED;
void feddc_engine_release(feddc_engine *engine, const feddc_event *event);

/** Report that the sum of a shard is complete. sum: [shard.n] values, unchanged until `taken`. */
void feddc_engine_done(feddc_engine *engine, uint32_t step, uint32_t bucket, uint32_t shard,
                       const float *sum);

/* Flags of a plain step in which owners are asked for a vector, or taught one (feddc_exchange_ask,
 * feddc_exchange_teach); bits 4 to 6 have the vector's number. */
enum { FEDDC_ASKED = 4, FEDDC_TAUGHT = 8, FEDDC_WHAT_SHIFT = 4, FEDDC_HOW = 0x7C };

/** Return these flags of a bucket's step, or 0. */
uint8_t feddc_engine_how(feddc_engine *engine, uint32_t step, uint32_t bucket);

/** Nanoseconds of a monotonic clock. */
uint64_t feddc_engine_ns(void);

/** Record that the engine's thread was busy from `begin` until now. */
void feddc_engine_spent(feddc_engine *engine, feddc_what what, uint32_t step, uint32_t bucket,
                        size_t bytes, uint64_t begin);

/** The k-th collective of collectives.def; NULL past the last. */
const feddc_collective_vtable *feddc_collective_at(size_t k);

/** Parse a spec such as "ring" or "owners:aggregators=1". Errors: FED_EINVAL */
fed_status feddc_collective_parse(const char *spec, const feddc_collective_vtable **collective,
                                  double param[FEDDC_COLLECTIVE_PARAMS],
                                  fed_error *err) FED_CHECKED;

#endif
