/* What the files of the fedworker program share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_APP_H
#define FEDWORKER_APP_H

#include "fed/bytes.h"
#include "fedclient/apps/fedtrain.h"
#include "fedclient/apps/fedworker_choice.h"
#include "feddc/trace.h"
#include "feddc/worker.h"

/** The command line. Strings are argv's. */
typedef struct fedworker_options {
    app_options app; /* those that fedtrain has, too */
    const char *link, *collective, *sync, *codec, *pull, *nic;
    const char *summary, *trace;
    const char *listen, *join, *secret_file, *host, *congestion;
    uint32_t workers, here; /* here: of them on this machine; 0: what `listen` and `join` say */
    uint32_t min;           /* go on with so many; 0: all */
    uint32_t small, bucket, late;    /* of the exchange; 0: its defaults */
    uint32_t every;                  /* steps between checkpoints; 0: an epoch's */
    uint32_t rate;                   /* of the lines, Mbit/s, for the prediction; 0: not said */
    float learning_rate, local_rate; /* 0: not said */
} fedworker_options;

/** What all ranks of this process share, read-only while they train. */
typedef struct fedworker_job {
    const fedworker_options *o;
    fed_optimizer optimizer;
    fedworker_choice choice; /* ranks and workers: those that the worker group begins with */
    app_samples samples;
    uint64_t zero_ns; /* of traces: when the job was opened, by CLOCK_MONOTONIC */
} fedworker_job;

/** Read the words of the options, and open the samples. Free these with app_samples_free, also
 * after a failure. */
fed_status fedworker_job_open(const fedworker_options *o, fedworker_job *job,
                              fed_error *err) FED_CHECKED;
/** How a rank of this process meets the others. */
typedef struct fedworker_entry {
    feddc_place place;
    struct feddc_watch *watch; /* NULL: nobody watches */
    bool elastic;              /* the watch says the place, and a new one when a rank has failed */
} fedworker_entry;

/** Train as one rank, to the end. */
fed_status fedworker_rank(const fedworker_job *job, const fedworker_entry *entry,
                          fed_error *err) FED_CHECKED;

/** Start all ranks that belong to this machine, by the link, and wait for them. */
fed_status fedworker_group(const fedworker_job *job, fed_error *err) FED_CHECKED;

/** The same for the link tcp, whose ranks are processes under a failure detector: fedworker_tcp.c.
 */
fed_status fedworker_tcp(const fedworker_job *job, fed_error *err) FED_CHECKED;

/* ---- fedworker_report.c: rank 0 says what came of it ---- */

typedef struct fedworker_result {
    const fedworker_job *job;
    const fed_arch *arch;
    const feddc_worker_tally *tally; /* [workers] */
    uint32_t workers, step;
    fedtrain_score score;
    double seconds; /* wall time of the run, with evaluations and checkpoints */
} fedworker_result;

/** The table of the mean step, on standard output. */
fed_status fedworker_print_table(const fedworker_result *result, fed_error *err) FED_CHECKED;

/** --summary. */
fed_status fedworker_write_summary(const fedworker_result *result, fed_error *err) FED_CHECKED;

#endif
