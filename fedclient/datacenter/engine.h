/* The engine: a rank's thread that encodes, sends and sums, and the data it shares with the
 * caller. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_ENGINE_H
#define FEDDC_ENGINE_H

#include <pthread.h>

#include "fed/gpu.h"
#include "fedclient/datacenter/collective.h"
#include "fedclient/datacenter/nic/nic.h"
#include "feddc/exchange.h"

enum { FEDDC_ARRIVALS = 4 }; /* steps whose received bytes are counted separately */
enum { FEDDC_AHEAD = 2 };    /* most steps that may be put in before their sums are taken */
enum { FEDDC_GATES = 16 };   /* GPU streams that wait for the caller's stream */

/** A bucket of a step under way. A step has the cells of slot step % FEDDC_AHEAD. */
typedef struct feddc_cell {
    uint32_t step;
    bool begun;         /* some of its values were put in */
    bool plain;         /* this step is sent as float32 */
    size_t missing;     /* number of values not put in yet */
    const float *grad;  /* values of the bucket; NULL until all are put in */
    uint32_t left;      /* number of shards whose sums are not complete */
    uint32_t lent;      /* sends that still read the gradient */
    uint64_t start;     /* when the collective's `begin` was called, in ns */
    uint32_t waits_for; /* the rank that the bucket waited for at the last look_around */
    bool claimed;       /* the caller takes the sums, or has taken them */
    bool started;       /* the collective's `begin` was called */
} feddc_cell;

typedef struct feddc_order {
    uint32_t bucket, step;
    bool begin; /* true: the gradient is ready; false: the sum was taken */
} feddc_order;

/** A send that the link has not finished. */
typedef struct feddc_sending {
    uint64_t token; /* given by the collective */
    uint32_t bucket, step;
    bool lent;      /* the data lies in the caller's gradient */
    uint64_t begin; /* when it was sent, in ns */
    size_t len;
    uint32_t to;
    size_t next; /* the next free entry, if this one is free */
} feddc_sending;

struct feddc_engine {
    const feddc_link_vtable *link;
    void *link_self;
    const feddc_collective_vtable *collective;
    void *collective_self;
    double param[FEDDC_COLLECTIVE_PARAMS];
    feddc_plan plan;
    feddc_coder *push, *pull;
    feddc_nic nic;
    feddc_values values; /* says whether gradients and sums lie in host or GPU memory */
    float *sum;
    uint32_t rank, ranks, workers, late;
    feddc_trace *trace;

    /* Used by the engine's thread only: */
    feddc_sending *sending;
    size_t sendings, free_sending;
    bool held;  /* some buckets wait until others are complete */
    bool retry; /* a bucket has become complete since waiting buckets were last tried */
    uint32_t first_open[FEDDC_AHEAD]; /* all buckets before this index are complete in that step */
    bool *gone;                       /* bool[ranks] */
    bool *busy; /* bool[buckets]: a step has begun whose sum was not taken yet */

    /* Used by both threads, under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    feddc_cell *cell;     /* [slot * buckets + bucket] */
    const float **result; /* [(slot * buckets + bucket) * shards + shard] */
    feddc_order *order;   /* a ring buffer of `orders` entries */
    size_t orders, order_first, order_count;
    bool closing, orderly, workers_gone;
    bool stopped;      /* the link is closed or is being closed */
    uint32_t using;    /* takes that read sums now; the link stays open until they return */
    fed_error failure; /* status FED_OK: no failure */
    bool heard;        /* at least one message has arrived */
    uint32_t newest;   /* the highest step of a message that arrived */
    uint64_t arrived_bytes[FEDDC_ARRIVALS]; /* of incomplete steps: step s at s % FEDDC_ARRIVALS */
    feddc_exchange_counts counts;
    uint64_t first_put[FEDDC_AHEAD]; /* time of the step's first put, in ns; 0: none */
    uint64_t last_sum;               /* when the last step was complete, in ns; 0: none */
    uint32_t complete[FEDDC_AHEAD];  /* number of the step's complete buckets */

    /* For a GPU, under the lock: a put or take of a bucket makes stream gate[bucket % FEDDC_GATES]
     * wait for the work in the caller's stream. */
    fed_gpu_stream *caller, *gate[FEDDC_GATES];

    pthread_t thread;
    bool started;
};

feddc_cell *feddc_engine_cell(feddc_engine *engine, uint32_t step, uint32_t bucket);

/** The thread's function: runs until `closing` or a failure, then closes the link. */
void *feddc_engine_run(void *engine);

/** With the lock held: record the first failure, which every take returns from now on. */
void feddc_engine_fail(feddc_engine *engine, const fed_error *err);

#endif
