/* The training callback of fedclientd: libfedtrain inside libfedclient's callback. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_WORKSHOP_H
#define FEDCLIENT_APPS_WORKSHOP_H

#include <stdbool.h>
#include <stdint.h>

#include "fedclient/fedclient.h"
#include "fedtrain/data.h"
#include "fedtrain/job.h"

/** Train by several workers, in place of fedtrain_run: the steps of *job, each with job->batch
 * samples a worker. round->values and `memory`, the optimizer's state, are input and output. The
 * function calls job->after_step from time to time, and ends if after_step returns false. arch is
 * the task's model. Errors, such as FED_EINVAL: the task does not fit this worker group. */
typedef fed_status (*workshop_worker_group)(void *user, fedclient_round *round,
                                            const fedtrain_job *job, const fed_arch *arch,
                                            float *memory, size_t memory_count, fed_error *err);

typedef struct workshop_settings {
    const char *data, *dataset; /* directory and name of the data set, as for fedtrain_data_open */
    uint32_t shard, shards; /* this device's shard of the training set, and the number of shards */
    fedtrain_split split;
    /* a backend of libfedtrain, or a GPU's name such as "opencl:0"; NULL: the default */
    const char *backend;
    bool evaluate;  /* measure models on the test set, instead of training */
    bool normalise; /* normalise by this device's shard; to evaluate, by its training set */
    /* decline a task whose batch takes more bytes of memory than this; 0: no limit. Each worker of
     * a worker group has a net of its own, without this limit */
    uint64_t most_net_bytes;
    workshop_worker_group group; /* NULL: train by fedtrain_run */
    void *worker_group_user;
} workshop_settings;

typedef struct workshop workshop;

/** Make a workshop and open its data. *settings and *platform, where the optimizer's state is
 * stored, must live until workshop_close; the platform may be opened after this call. Call
 * workshop_close also after a failure. */
fed_status workshop_open(const workshop_settings *settings, const fedclient_platform *platform,
                         workshop **made, fed_error *err) FED_CHECKED;
void workshop_close(workshop *w);

/** The digest of the names of the data's classes, for fedclient_options.classes. */
uint64_t workshop_classes(const workshop *w);

/** For a worker process of a worker group, which has no fedclient_round: fill in *job for a task,
 * without its seed, and *arch. Both are valid until the next call. */
fed_status workshop_prepare(workshop *w, const fed_task *task, fedtrain_job *job,
                            const fed_arch **arch, fed_error *err) FED_CHECKED;

/** fedclient_options.train, with a workshop as user: train or, with settings->evaluate, measure.
 * The task's net and optimizer stay for its next round. FED_EDECLINED: the task does not fit this
 * device's data or software. FED_ENONFINITE, FED_ENOMEM, FED_EBUSY: a failure that may pass.
 * FED_EIO: this device's GPU failed. Other errors: the platform's, and fedclient_round_wanted's. */
fed_status workshop_work(void *user, fedclient_round *round, fed_error *err) FED_CHECKED;

#endif
