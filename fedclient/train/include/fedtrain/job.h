/* A job: what one client trains on in one round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_JOB_H
#define FEDTRAIN_JOB_H

#include "fed/api.h"
#include "fed/optimizer_spec.h"
#include "fedtrain/dataset.h"
#include "fedtrain/net.h"
#include "fedtrain/partition.h"

FED_API_BEGIN

typedef struct fedtrain_job {
    fedtrain_net *net; /* max_batch >= batch */
    fed_optimizer optimizer;
    const fedtrain_dataset *set; /* the samples, if token is NULL */
    const fedtrain_shard *shard; /* which samples of `set` */
    const uint32_t *token;       /* the client's text, uint32[token_count]; NULL: samples */
    size_t token_count;
    size_t steps, batch;
    uint64_t seed; /* with client and round, decides the order of the samples */
    uint32_t client, round;
    fedtrain_augment augment; /* zeroed: samples as they are */
    size_t done;              /* steps of the round that an earlier run has taken */

    /* NULL, or called after each step, with the step's number in the round, from 0, and its loss.
     * If after_step returns false, the run ends after this step, without an error. after_step must
     * not use the net, nor read params or state, which may be stale in this memory until the run
     * returns. */
    bool (*after_step)(void *user, size_t step, float loss);
    void *user;
} fedtrain_job;

/** A task has at most this many rounds. A device may train several times in one asynchronous round
 * r. For the k-th training, k from 0, job->round is r + k * FEDTRAIN_AGAIN. So each training takes
 * other samples. */
enum { FEDTRAIN_AGAIN = 1000000 };

FED_API_END

#endif
