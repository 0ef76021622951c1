/* The batches of a job, one by one: for a program that takes the optimizer's steps itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_BATCHES_H
#define FEDTRAIN_BATCHES_H

#include "fed/api.h"
#include "fedtrain/job.h"

FED_API_BEGIN

/**
 * The batches that fedtrain_run takes its steps with, in the same order:
 *
 *     fedtrain_batches *batches;
 *     FED_TRY(fedtrain_batches_open(&job, params, &batches, &err));
 *     for (size_t step = job.done; step < job.steps; step++) {
 *         fedtrain_batch batch;
 *         fedtrain_batches_next(batches, step, &batch);
 *         ... fedtrain_net_gradient_to(job.net, params, &batch, &sink, grad, &loss, &err) ...
 *     }
 *     fedtrain_batches_close(batches);
 *
 * Samples: the walk goes through the client's shard, shuffled anew for each pass. The walk of round
 * r goes on where that of round r - 1 ended, without anything being stored. A text is read as
 * fedtrain_run says.
 */
typedef struct fedtrain_batches fedtrain_batches;

/**
 * job, its net and its data must outlive the batches. One thread at a time, the net's.
 *
 * params  float32[layout.size]: a model of a text that begins in the middle of it, at job->done,
 *         reads the window before with these
 * Errors  FED_EINVAL an empty shard, a batch over max_batch, samples or labels that do not fit the
 *         net, augmentation of a table, a text of T tokens or less; FED_ERANGE a token that the
 *         model does not know; FED_ENOMEM; fedtrain_net_forward's
 * Owner   fedtrain_batches_close
 */
fed_status fedtrain_batches_open(const fedtrain_job *job, const float *params,
                                 fedtrain_batches **batches, fed_error *err) FED_CHECKED;

/**
 * The batch of a step of the round, from 0. In their order steps cost least, and LSTMs need it;
 * else any step may be asked for, any number of times, also one past job->steps.
 *
 * *batch points into the net's memory: it holds until the next call of this, of fedtrain_run or of
 * an evaluation with the same net.
 */
void fedtrain_batches_next(fedtrain_batches *batches, size_t step, fedtrain_batch *batch);

/** Safe on NULL. */
void fedtrain_batches_close(fedtrain_batches *batches);

FED_API_END

#endif
