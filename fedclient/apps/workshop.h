/* The training callback of fedclientd: libfedtrain inside libfedclient's callback. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_WORKSHOP_H
#define FEDCLIENT_APPS_WORKSHOP_H

#include <stdbool.h>
#include <stdint.h>

#include "fedclient/fedclient.h"
#include "fedtrain/data.h"
#include "fedtrain/job.h"

/**
 * Train in place of fedtrain_run, by several workers: job's steps, each of job->batch samples a
 * worker, from values and memory, the optimizer's state, to values and memory. Call job->after_step
 * from time to time with the steps that are done; false: end soon.
 *
 * arch    of job's net
 * Errors  FED_EINVAL and the like: the task does not fit this worker group, and *err says why
 */
typedef fed_status (*workshop_worker_group)(void *user, fedclient_round *round,
                                            const fedtrain_job *job, const fed_arch *arch,
                                            float *memory, size_t memory_count, fed_error *err);

typedef struct workshop_settings {
    const char *data, *dataset; /* where the samples are, and what: fedtrain_data_open */
    uint32_t shard, shards; /* this device's shard of the training set, and the number of shards */
    fedtrain_split split;
    const char *backend; /* or a device's name, "opencl:0"; NULL: the first */
    bool evaluate;       /* measure models on the test set, instead of training */
    bool normalise; /* samples, by what this device trains on; to evaluate, by its training set */
    workshop_worker_group group; /* NULL: train by fedtrain_run */
    void *worker_group_user;
} workshop_settings;

typedef struct workshop workshop;

/** Open the data. settings and platform, where the optimizer's state is stored, are lent until
 * workshop_close, which is due after a failure too; the platform may be opened later. */
fed_status workshop_open(const workshop_settings *settings, const fedclient_platform *platform,
                         workshop **made, fed_error *err) FED_CHECKED;
void workshop_close(workshop *w);

/** For a worker of the worker group in a process of its own, which has no round: the job of a task
 * but for its seed, and the model. Both live until the next call. */
fed_status workshop_prepare(workshop *w, const fed_task *task, fedtrain_job *job,
                            const fed_arch **arch, fed_error *err) FED_CHECKED;

/** fedclient_options.train, with a workshop as user: train or measure, as the task says. The task's
 * net and optimizer stay for its next round. FED_EDECLINED: the task does not fit this device's
 * data, memory or software. FED_EIO: its GPU failed. Other errors: the platform's. */
fed_status workshop_work(void *user, fedclient_round *round, fed_error *err) FED_CHECKED;

#endif
