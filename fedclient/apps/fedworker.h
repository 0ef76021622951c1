/* Declarations that the files of the fedworker program share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_APP_H
#define FEDWORKER_APP_H

#include "fed/bytes.h"
#include "fedclient/apps/fedworker_choice.h"
#include "fedclient/apps/fedworker_options.h"
#include "fedclient/apps/fedworker_settings.h"
#include "fedclient/apps/fedworker_stop.h"
#include "feddc/trace.h"
#include "feddc/worker.h"

/** The data that all ranks of this process share. */
typedef struct fedworker_job {
    const fedworker_options *o;
    fed_optimizer optimizer;
    fedworker_choice choice;
    app_samples samples;
    fedworker_settings settings;
    fedworker_stop *stop;
    bool all_here;    /* all ranks are threads of this process, or processes that it starts */
    uint64_t zero_ns; /* time 0 of traces: when the job was opened, by CLOCK_MONOTONIC */
} fedworker_job;

/** Open the samples, and compare the settings with those of the checkpoint to go on from. Free with
 * fedworker_job_close, also after a failure. The job must stay in place. */
fed_status fedworker_job_open(const fedworker_options *o, fedworker_job *job,
                              fed_error *err) FED_CHECKED;
void fedworker_job_close(fedworker_job *job);

/** How a rank of this process finds the other ranks of its worker group. */
typedef struct fedworker_entry {
    feddc_place place;
    struct feddc_watch *watch; /* the connection to the failure detector; NULL: none */
    bool elastic; /* `watch` assigns `place`, and a new place after each failure of a rank */
} fedworker_entry;

/** Train as one rank, to the end. FED_ECANCELED: the worker group was told to stop, and rank 0 has
 * told the user. */
fed_status fedworker_rank(const fedworker_job *job, const fedworker_entry *entry,
                          fed_error *err) FED_CHECKED;

/** Run ranks to their end: as threads or processes that this process starts, or (link mpi) the one
 * rank that this process is. FED_ECANCELED: SIGINT or SIGTERM ended the training. */
fed_status fedworker_group(fedworker_job *job, fed_error *err) FED_CHECKED;

/** fedworker_tcp.c: run the ranks of this machine as processes, under a failure detector. */
fed_status fedworker_tcp(const fedworker_job *job, fed_error *err) FED_CHECKED;

/* ---- fedworker_report.c: rank 0 reports the result of the training ---- */

typedef struct fedworker_result {
    const fedworker_job *job;
    const fed_arch *arch;
    const feddc_worker_tally *tally;
    uint32_t workers, step;
    fedtrain_score score;
    double seconds; /* wall time of the run, with evaluations and checkpoints */
} fedworker_result;

/** Print the table of the mean step's times on standard output. */
fed_status fedworker_print_table(const fedworker_result *result, fed_error *err) FED_CHECKED;

fed_status fedworker_write_summary(const fedworker_result *result, fed_error *err) FED_CHECKED;

#endif
