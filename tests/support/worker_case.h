/* A worker group in one process, a thread for each rank, on any link that needs no launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_CASE_H
#define WORKER_CASE_H

#include "fed_test.h"

#include <pthread.h>

#include "feddc/worker.h"
#include "fedtrain/data.h"

enum { WORKER_CASE_RANKS = 5 };

typedef struct worker_data {
    fedtrain_data train, test;
    fedtrain_share all;
} worker_data;

/** Write made-up digits to the directory, and open them. train, test: how many digits. train = 0:
 * write none, because the files exist already. */
void worker_data_open(worker_data *data, const char *directory, size_t train, size_t test);
void worker_data_close(worker_data *data);

typedef struct worker_case {
    const worker_data *data;
    const char *device;    /* device of the nets; NULL: the processor */
    const char *link;      /* NULL: the link of threads; or "tcp" */
    struct nic_plan *nics; /* offload NICs to simulate around that link; NULL: none */
    const char *model, *collective, *sync, *codec, *pull, *nic, *optimizer;
    uint32_t workers, late;
    size_t batch;
    double local_rate;
    uint32_t run[4]; /* number of steps of each run; 0: no more runs */
    const char *resume, *save;
    const struct worker_case *last; /* what the last rank has instead; NULL: the same */
} worker_case;

typedef struct worker_member {
    const worker_case *c;
    feddc_place place;
    pthread_t thread;
    fed_arch arch;
    fed_layout layout; /* the layout of the model with the optimizer's state */
    fedtrain_net *net;
    float *values, *state;
    feddc_worker *worker;
    feddc_worker_tally tally[WORKER_CASE_RANKS];
    fedtrain_score score;
    fed_status status;
    fed_error err;
    char remark[200];
} worker_member;

/** Train with all ranks as threads. Their values stay until worker_case_free. */
void worker_case_run(const worker_case *c, worker_member members[WORKER_CASE_RANKS]);
void worker_case_free(worker_member members[WORKER_CASE_RANKS]);

/** Train as one rank of an MPI job, at the place that the link mpi finds. If that is not possible,
 * the test fails. m then holds status, err and tally. Free it with worker_case_free_rank. */
void worker_case_rank(const worker_case *c, worker_member *m);
void worker_case_free_rank(worker_member *m);

/** Train with all ranks. This must succeed, with the same bits at all ranks. Returns rank 0's
 * values, which the caller frees. score and digest: rank 0's results; each may be NULL. */
float *worker_case_values(const worker_case *c, fedtrain_score *score, uint64_t *digest);

#endif
