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
 * A round of such a device: the library hands in a model; the worker group begins with it, takes
 * the task's local steps, and its model, which is the same on all workers, is the result. The
 * worker group lives for one round: so a worker that has failed is there again in the next one.
 *
 * Workers are threads of this process (link threads), processes of this machine (link tcp), or what
 * mpirun has started (link mpi), each with a watch. The failure detector is in the main process,
 * with mpi in rank 0, and so is the device. Main process and workers share a page of memory:
 * weights and the optimizer's state go in and out there. With mpi each rank has a page of its own,
 * and rank 0 sends the others what they need to begin a round: an order.
 */

/** The device and its worker group. */
typedef struct fedworker_cluster {
    fedclientd_settings device; /* the first member: fedclientd_read_options */
    const char *link, *collective, *sync, *codec, *pull;
    uint32_t workers, min; /* min: a worker group goes on with so many; 0: all */
    /* made of these */
    fedworker_choice choice; /* with mpi `place` is this rank's; else its size is 0 */
    bool processes;          /* the workers are processes, not threads */
    /* of all rounds so far */
    struct {
        uint64_t sent, received;
    } bytes[FED_WORKER_GROUP_WORKERS];
    double exposed_s, step_s;
    char verdict[256]; /* the last one, which is told for a minute */
    int64_t verdict_ms, told_ms;
} fedworker_cluster;

/** What one worker of a round says at its end. */
typedef struct fedworker_slot {
    atomic_bool over;
    fed_status status;
    char why[400];
    feddc_worker_tally tally;
} fedworker_slot;

/** The memory that the processes of a round share. Before `go` the main process writes it. */
typedef struct fedworker_page {
    atomic_bool go;        /* the failure detector listens */
    atomic_bool stop;      /* end soon, with the steps that are done */
    atomic_bool completed; /* values, memory and loss are the result */
    atomic_uint steps;     /* that are done */
    char address[64];      /* the failure detector's */
    uint8_t secret[FEDDC_SECRET];
    size_t values, memory; /* how many floats */
    float loss;
    fedworker_slot slot[FEDDC_RANKS];
    float at[]; /* values, then memory */
} fedworker_page;

/** A worker of a round. */
typedef struct fedworker_member {
    const fedworker_cluster *cluster;
    const fedtrain_job *job;
    const fed_arch *arch;
    fedworker_page *page;
    struct feddc_hub *hub; /* link threads */
    uint32_t number;
    pid_t pid; /* processes; 0: not started, or waited for */
    pthread_t thread;
} fedworker_member;

/** fedworker_serve.c: `fedworker train --server URL ...`. *wrong: the command line is. */
fed_status fedworker_serve(int argc, char **argv, bool *wrong, fed_error *err) FED_CHECKED;
extern const char *const fedworker_serve_usage;

/** fedworker_round.c: a workshop_worker_group, whose user is a fedworker_cluster. */
fed_status fedworker_round(void *user, fedclient_round *round, const fedtrain_job *job,
                           const fed_arch *arch, float *memory, size_t memory_count,
                           fed_error *err) FED_CHECKED;

/** fedworker_member.c: what a worker does from the beginning of a round to its end. Its slot has
 * the outcome. */
void fedworker_member_run(const fedworker_member *member);
/** Is a failure of this status another worker's fault? */
bool fedworker_is_broken(fed_status status);

/** fedworker_ranks.c, for link mpi. Rank 0: send the others what they need to begin a round; task
 * NULL: they end. The others: take part in each round until then. */
fed_status fedworker_ranks_order(const fedworker_cluster *cluster, const fed_task *task,
                                 uint64_t seed, fedworker_page *page, fed_error *err) FED_CHECKED;
fed_status fedworker_ranks_follow(fedworker_cluster *cluster, fed_error *err) FED_CHECKED;

/** fedworker_group_report.c: tell the coordinator of the workers, once a second, when there is a
 * new verdict, and at the end of a round. */
void fedworker_group_report(fedworker_cluster *cluster, const fedclient_round *round,
                            feddc_detector *detector, bool last);

/** Count what the workers of a round have sent, and how long they waited. */
void fedworker_group_count(fedworker_cluster *cluster, const fedworker_page *page);

#endif
