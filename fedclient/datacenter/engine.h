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

/** The state of one bucket in one step. Step s uses the cells of slot s % FEDDC_AHEAD. */
typedef struct feddc_cell {
    uint32_t step;
    bool begun;
    bool plain;         /* the step is sent as float32 */
    uint8_t how;        /* flags of collective.h: the owners are asked or taught; else 0 */
    size_t missing;     /* number of values not put in yet */
    const float *grad;  /* values of the bucket; NULL until all are put in */
    uint32_t left;      /* number of shards whose sums are not complete */
    uint32_t lent;      /* sends that still read the gradient */
    uint64_t start;     /* when the bucket's exchange began, ns */
    uint32_t waits_for; /* the rank that the bucket waits for */
    bool claimed;       /* the caller takes the sums, or has taken them */
    bool started;       /* the bucket was given to the collective */
} feddc_cell;

typedef struct feddc_order {
    uint32_t bucket, step;
    bool begin; /* true: the gradient is ready; false: the sum was taken */
} feddc_order;

typedef struct feddc_sending {
    uint64_t token;
    uint32_t bucket, step;
    bool lent;      /* the data lies in the caller's gradient */
    uint64_t begin; /* time of sending, ns */
    size_t len;
    uint32_t to;
    size_t next;
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
    feddc_values values;
    float *sum;
    const feddc_owner *owner; /* NULL: ranks take sums */
    float *replica;           /* with an owner: float32[plan.n]; else NULL */
    uint32_t rank, ranks, workers, late;
    uint32_t window; /* a bucket waits while so many earlier ones are under way */
    feddc_trace *trace;

    /* Used by the engine's thread only: */
    feddc_sending *sending;
    size_t sendings, free_sending;
    bool held;  /* some buckets wait for others to complete */
    bool retry; /* a bucket has become complete since waiting buckets were last tried */
    uint32_t first_open[FEDDC_AHEAD]; /* all buckets before this index are complete in that step */
    bool *gone;
    bool *busy; /* [buckets]: the bucket was begun and its sum is not taken yet */

    /* Shared with the caller's threads, and written under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    feddc_cell *cell;     /* [slot * buckets + bucket] */
    const float **result; /* [(slot * buckets + bucket) * shards + shard] */
    feddc_order *order;
    size_t orders, order_first, order_count;
    bool closing, orderly, workers_gone;
    bool stopped;   /* the link must not be used any more */
    uint32_t using; /* takes that read sums now; the link stays open until they return */
    fed_error failure;
    bool heard;                             /* at least one message has arrived */
    uint32_t newest;                        /* the highest step of a message that arrived */
    uint64_t arrived_bytes[FEDDC_ARRIVALS]; /* of incomplete steps: step s at s % FEDDC_ARRIVALS */
    feddc_exchange_counts counts;
    uint64_t first_put[FEDDC_AHEAD]; /* time of the step's first put, ns; 0: none */
    uint64_t last_sum;               /* when the last step was complete, ns; 0: none */
    uint32_t complete[FEDDC_AHEAD];

    /* With a GPU: a put or take of a bucket, which holds the lock, makes stream gate[bucket %
     * FEDDC_GATES] wait for the work in the caller's stream. */
    fed_gpu_stream *caller, *gate[FEDDC_GATES];

    pthread_t thread;
    bool started;
};

feddc_cell *feddc_engine_cell(feddc_engine *engine, uint32_t step, uint32_t bucket);

/** The engine thread's function: runs until `closing` or a failure, then closes the link. */
void *feddc_engine_run(void *engine);

/** With the lock held: record the first failure, which every take returns from now on. */
void feddc_engine_fail(feddc_engine *engine, const fed_error *err);

#endif
