/* The engine: a rank's thread that codes, sends and sums, and what the caller shares with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_ENGINE_H
#define FEDDC_ENGINE_H

#include <pthread.h>

#include "fed/gpu.h"
#include "fedclient/datacenter/collective.h"
#include "fedclient/datacenter/nic/nic.h"
#include "feddc/exchange.h"

enum { FEDDC_ARRIVALS = 4 }; /* steps whose messages are counted apart */
enum { FEDDC_AHEAD = 2 };    /* most steps that are put in and not taken */
enum { FEDDC_GATES = 16 };   /* streams by which the engine waits for the caller's */

/** One bucket of one of the steps under way; step % FEDDC_AHEAD says which. */
typedef struct feddc_cell {
    uint32_t step;
    bool begun;         /* some of it was put in */
    bool plain;         /* of this step */
    size_t missing;     /* values that were not put in yet */
    const float *grad;  /* values of the bucket; not NULL once all was put in */
    uint32_t left;      /* shards whose sums are not there */
    uint32_t lent;      /* sends that still read the gradient */
    uint64_t start;     /* ns: when the engine told the collective of the begin */
    uint32_t waits_for; /* a rank, as the collective said when it was asked last */
    bool claimed;       /* the caller has taken the sums */
    bool started;       /* the engine has told the collective of the begin */
} feddc_cell;

/** What the caller tells the engine. */
typedef struct feddc_order {
    uint32_t bucket, step;
    bool begin; /* the gradient is ready; false: the sum was taken */
} feddc_order;

/** A send whose data the engine waits for. */
typedef struct feddc_sending {
    uint64_t token; /* the collective's */
    uint32_t bucket, step;
    bool lent;      /* the data lies in the caller's gradient */
    uint64_t begin; /* ns */
    size_t len;
    uint32_t to;
    size_t next; /* in the list of free ones */
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
    feddc_values values; /* where gradients and sums live */
    float *sum;
    uint32_t rank, ranks, workers, late;
    feddc_trace *trace;

    /* The engine's own */
    feddc_sending *sending;
    size_t sendings, free_sending;
    bool held;                        /* buckets wait until others are complete, */
    bool retry;                       /* and some are */
    uint32_t first_open[FEDDC_AHEAD]; /* all buckets of the step before this one are complete */
    bool *gone;                       /* bool[ranks] */
    bool *busy; /* bool[buckets]: a step of it has begun, and was not taken yet */

    /* Both threads', under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    feddc_cell *cell;     /* [slot * buckets + bucket] */
    const float **result; /* [(slot * buckets + bucket) * shards + shard] */
    feddc_order *order;   /* a ring of `orders` */
    size_t orders, order_first, order_count;
    bool closing, orderly, workers_gone;
    bool stopped;      /* the link is closed, or about to be */
    uint32_t using;    /* calls of take that read sums: until they return, the link stays open */
    fed_error failure; /* status FED_OK: none */
    bool heard;        /* a message has arrived */
    uint32_t newest;   /* the highest step of any that has */
    uint64_t
        arrived_bytes[FEDDC_ARRIVALS]; /* of steps that are not complete; step % FEDDC_ARRIVALS */
    feddc_exchange_counts counts;
    uint64_t first_put[FEDDC_AHEAD]; /* ns; 0: nothing of the step was put in */
    uint64_t last_sum;               /* ns: when the last step was complete; 0: none was */
    uint32_t complete[FEDDC_AHEAD];  /* buckets of the step whose sums are all there */

    /* With a GPU, under the lock: what the caller's stream had to do when it put a bucket in or
     * took it out is over when gate[bucket % FEDDC_GATES] is. */
    fed_gpu_stream *caller, *gate[FEDDC_GATES];

    pthread_t thread;
    bool started;
};

feddc_cell *feddc_engine_cell(feddc_engine *engine, uint32_t step, uint32_t bucket);

/** The thread: runs until `closing` or a failure, and closes the link. */
void *feddc_engine_run(void *engine);

/** With the lock held: the engine has failed, and takes return so. The first failure counts. */
void feddc_engine_fail(feddc_engine *engine, const fed_error *err);

#endif
