/* A worker group whose ranks are threads of one process. */
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

/** Write made-up digits to the directory, and open them. train, test: numbers of digits; train = 0:
 * the files exist already. */
void worker_data_open(worker_data *data, const char *directory, size_t train, size_t test);
void worker_data_close(worker_data *data);

typedef struct worker_case {
    const worker_data *data;
    const char *device;    /* NULL: the processor */
    const char *link;      /* "tcp"; NULL: the link of threads */
    struct nic_plan *nics; /* simulated offload NICs; NULL: none */
    const char *model, *collective, *sync, *codec, *pull, *nic, *optimizer;
    bool at_owners; /* the owners have the optimizer */
    uint32_t workers, late;
    size_t batch;
    double local_rate;
    uint32_t run[4]; /* steps of each run; 0: no more runs */
    const char *resume, *save;
    bool
        restart; /* before each run but the first: settle, and begin with the first weights again */
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

/** Train with all ranks. Free the results with worker_case_free. */
void worker_case_run(const worker_case *c, worker_member members[WORKER_CASE_RANKS]);
void worker_case_free(worker_member members[WORKER_CASE_RANKS]);

/** Train as one rank of an MPI job. m holds the results; free them with worker_case_free_rank. */
void worker_case_rank(const worker_case *c, worker_member *m);
void worker_case_free_rank(worker_member *m);

/** Train with all ranks, which must end with the same bits. Returns the values, which the caller
 * frees. score, digest: results of rank 0; each may be NULL. */
float *worker_case_values(const worker_case *c, fedtrain_score *score, uint64_t *digest);

#endif
