/* A worker group in one process: a thread a rank, on any link that needs no launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_CASE_H
#define WORKER_CASE_H

#include "fed_test.h"

#include <pthread.h>

#include "feddc/worker.h"
#include "fedtrain/data.h"

enum { WORKER_CASE_RANKS = 5 };

/** What a worker group trains on: fed_digits' pictures. */
typedef struct worker_data {
    fedtrain_data train, test;
    fedtrain_share all; /* of train */
} worker_data;

/** Pictures in a directory of the test's own, opened. train 0: they are there already. */
void worker_data_open(worker_data *data, const char *directory, size_t train, size_t test);
void worker_data_close(worker_data *data);

typedef struct worker_case {
    const worker_data *data;
    const char *device;    /* of the nets; NULL: the host */
    const char *link;      /* NULL: threads; or tcp */
    struct nic_plan *nics; /* NICs on the way, around that link; NULL: none */
    const char *model, *collective, *sync, *codec, *pull, *nic, *optimizer;
    uint32_t workers, late;
    size_t batch;
    double local_rate;
    uint32_t run[4]; /* steps, run by run; 0: no more */
    const char *resume, *save;
} worker_case;

typedef struct worker_member {
    const worker_case *c;
    feddc_place place;
    pthread_t thread;
    fed_arch arch;
    fed_layout layout; /* with the optimizer's state */
    fedtrain_net *net;
    float *values, *state;
    feddc_worker *worker;
    feddc_worker_tally tally[WORKER_CASE_RANKS];
    fedtrain_score score;
    fed_status status;
    fed_error err;
    char remark[200];
} worker_member;

/** Train, as threads of this process, and wait for all. The values stay, until worker_case_free. */
void worker_case_run(const worker_case *c, worker_member members[WORKER_CASE_RANKS]);
void worker_case_free(worker_member members[WORKER_CASE_RANKS]);

/** Train as one rank, with the place that the link finds: of mpi. The end of the test if it cannot.
 * m->status, err and tally are there afterwards; m is for worker_case_free_rank. */
void worker_case_rank(const worker_case *c, worker_member *m);
void worker_case_free_rank(worker_member *m);

/** Train, which must succeed, and leave the same bits at all ranks: rank 0's values, which are the
 * caller's to free. score, digest: NULL, or what rank 0 says at the end. */
float *worker_case_values(const worker_case *c, fedtrain_score *score, uint64_t *digest);

#endif
