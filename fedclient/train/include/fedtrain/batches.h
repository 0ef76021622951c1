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
 * Samples are taken from the client's shard in a random order, which is drawn anew for each pass
 * through the shard. Round r continues where round r - 1 ended; the place follows from the round's
 * number, so nothing is stored. A text is read as fedtrain_run says.
 */
typedef struct fedtrain_batches fedtrain_batches;

/**
 * Prepare the batches of a job. job, its net and its data must outlive them. Only the thread that
 * uses the net may use them.
 *
 * params  float32[layout.size]. Needed for a text where job->done > 0: the net reads the window
 *         before with these parameters, to have its LSTMs' state
 * Errors  FED_EINVAL an empty shard, a batch over max_batch, samples or labels that do not fit the
 *         net, augmentation of a table, a text of at most T tokens (T: the model's window);
 *         FED_ERANGE a token that the model does not know; FED_ENOMEM; and the errors of
 *         fedtrain_net_forward
 * Owner   fedtrain_batches_close
 */
fed_status fedtrain_batches_open(const fedtrain_job *job, const float *params,
                                 fedtrain_batches **batches, fed_error *err) FED_CHECKED;

/**
 * Make the batch of a step; the round's first step is 0. Models with LSTMs need the steps in their
 * order, which is also the fastest. With other models any step may be asked for, again, or past
 * job->steps.
 *
 * *batch points into the net's memory: it is valid until the next call of this function, of
 * fedtrain_run or of an evaluation with the same net.
 */
void fedtrain_batches_next(fedtrain_batches *batches, size_t step, fedtrain_batch *batch);

/** Safe on NULL. */
void fedtrain_batches_close(fedtrain_batches *batches);

FED_API_END

#endif
