/* fedworker as one device of a federation: what its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_SERVE_H
#define FEDWORKER_SERVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fed/worker_group.h"
#include "fedclient/apps/fedclientd.h"
#include "fedclient/apps/fedworker_choice.h"
#include "feddc/control.h"
#include "feddc/worker.h"

/*
 * In a round, the client library hands in a model, and the worker group trains the model for the
 * task's local steps. The trained model, which is the same on all workers, is the result. A worker
 * group is started for one round, so a worker that has failed is there again in the next round.
 *
 * Workers are threads of this process (link threads), processes of this machine (link tcp), or
 * processes that mpirun has started (link mpi). Each has a watch, its connection to the failure
 * detector. Device and failure detector are in the main process; with mpi they are in rank 0. Main
 * process and workers share a page of memory with the weights and the optimizer's state. With mpi
 * each rank has a page of its own, and rank 0 sends the others an order to begin a round.
 */

typedef struct fedworker_cluster {
    fedclientd_settings device; /* must be first: fedclientd_read_options fills it in */
    const char *link, *collective, *sync, *codec, *pull, *pull_as;
    uint32_t workers, min;   /* min: the group ends with fewer; 0: all are needed */
    fedworker_choice choice; /* with mpi `place` is this rank's; else its size is 0 */
    bool processes;          /* link tcp: the workers are child processes */
    /* sums over all rounds so far */
    struct {
        uint64_t sent, received;
    } bytes[FED_WORKER_GROUP_WORKERS];
    double exposed_s, step_s;
    char verdict[256]; /* the last verdict that is still reported; "": none */
    int64_t verdict_ms, told_ms;
} fedworker_cluster;

/** The result of one worker of a round. */
typedef struct fedworker_slot {
    atomic_bool over;
    fed_status status;
    char why[400];
    feddc_worker_tally tally;
} fedworker_slot;

/** The memory that the processes of a round share. The main process fills it in before it sets
 * `go`. */
typedef struct fedworker_page {
    atomic_bool go;        /* the page is filled in, and the failure detector listens */
    atomic_bool stop;      /* end soon, with the steps that are done */
    atomic_bool completed; /* the page's values, memory and loss are the result */
    atomic_uint steps;
    char address[64]; /* where the failure detector listens */
    uint8_t secret[FEDDC_SECRET];
    size_t values, memory;
    float loss;
    fedworker_slot slot[FEDDC_RANKS];
    float at[]; /* the model's values, then the optimizer's state (memory) */
} fedworker_page;

typedef struct fedworker_member {
    const fedworker_cluster *cluster;
    const fedtrain_job *job;
    const fed_arch *arch;
    fedworker_page *page;
    struct feddc_hub *hub; /* with --link threads; else NULL */
    uint32_t number;
    pid_t pid; /* id of a worker process; 0: it is not started, or has ended */
    pthread_t thread;
} fedworker_member;

/** fedworker_serve.c: run `fedworker train --server URL ...`. *wrong: the command line is wrong. */
fed_status fedworker_serve(int argc, char **argv, bool *wrong, fed_error *err) FED_CHECKED;
extern const char *const fedworker_serve_usage;

/** fedworker_round.c: a workshop_worker_group, whose user is a fedworker_cluster. */
fed_status fedworker_round(void *user, fedclient_round *round, const fedtrain_job *job,
                           const fed_arch *arch, float *memory, size_t memory_count,
                           fed_error *err) FED_CHECKED;

/** fedworker_member.c: run a worker from the beginning of a round to its end. The result is in the
 * worker's slot of the page. */
void fedworker_member_run(const fedworker_member *member);
/** Return whether this status can mean that another worker failed, or that the connection to it
 * broke. */
bool fedworker_is_broken(fed_status status);

/** fedworker_ranks.c, for the link mpi. Rank 0 calls fedworker_ranks_order to begin a round on the
 * other ranks; task NULL makes them end. The other ranks run fedworker_ranks_follow, which takes
 * part in each round until rank 0 makes it end. */
fed_status fedworker_ranks_order(const fedworker_cluster *cluster, const fed_task *task,
                                 uint64_t seed, fedworker_page *page, fed_error *err) FED_CHECKED;
fed_status fedworker_ranks_follow(fedworker_cluster *cluster, fed_error *err) FED_CHECKED;

/** fedworker_group_report.c: report the workers' states to the coordinator. Once the workers have
 * met, there is at most one report a second, and one at the round's end (last). A new verdict is
 * reported at once. */
void fedworker_group_report(fedworker_cluster *cluster, const fedclient_round *round,
                            feddc_detector *detector, bool last);

/** Add the bytes that the workers of a round have sent and received, and their times, to the sums
 * of the cluster. */
void fedworker_group_count(fedworker_cluster *cluster, const fedworker_page *page);

#endif
