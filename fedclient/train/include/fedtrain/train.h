/* Local training: what a client does with a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_TRAIN_H
#define FEDTRAIN_TRAIN_H

#include "fed/api.h"
#include "fedtrain/evaluate.h"
#include "fedtrain/fits.h"
#include "fedtrain/job.h"
#include "fedtrain/optimizer.h"
#include "fedtrain/split.h"

FED_API_BEGIN

/**
 * Take the optimizer steps job->done to job->steps - 1 of a round. params and state change in
 * place.
 *
 * Samples are taken from the client's shard in a random order, which is drawn anew for each pass
 * through the shard. Round r takes up where round r - 1 ended; the place follows from the round's
 * number, so nothing is stored.
 *
 * A text needs a model that takes T tokens and gives scores for the word after each. The text is
 * read in `batch` streams, whose beginnings are evenly spread over it. A step reads the next
 * window of T tokens of each stream. When no whole window is left, the streams begin again; until
 * then LSTMs keep their state from window to window. A run that begins within the streams first
 * reads the window before once more, to have that state, so the same job gives the same bits.
 *
 * params  float32[layout.size], in and out
 * state   float32[fedtrain_optimizer_state_size], in and out
 * loss    mean over the steps of this run
 * Errors  those of fedtrain_batches_open; FED_EINVAL no steps, or an optimizer that the model or a
 *         small build does not support; FED_ENONFINITE a step's loss is not finite (*err says which
 *         step's; params and state are as before that step); FED_ENOMEM, FED_EIO the backend
 *         failed: params and state are of no use
 */
fed_status fedtrain_run(const fedtrain_job *job, float *params, float *state, float *loss,
                        fed_error *err) FED_CHECKED;

FED_API_END

#endif
