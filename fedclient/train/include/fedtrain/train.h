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
 * Run job->steps optimizer steps, less job->done, from params, in place.
 *
 * Samples: batches walk through the shard, which is shuffled anew for each pass. The walk of round
 * r goes on where that of round r - 1 ended, without anything being stored.
 *
 * A text is for models of T tokens that give scores for the word after each. It is read in `batch`
 * streams, which begin evenly spread over it. A step reads the next window of T tokens of each
 * stream; where no whole window is left, the streams begin again. An LSTM's state goes from window
 * to window until then. A run that begins within the streams first reads the window before once
 * more, to have that state: the same job gives the same bits.
 *
 * params  float32[layout.size], in and out
 * state   float32[fedtrain_optimizer_state_size], in and out
 * loss    mean over the steps it ran
 * Errors  fedtrain_batches_open's; FED_EINVAL no steps; FED_ENONFINITE a step's loss (the sentence
 *         says which step; params and state are as that step found them); FED_ENOMEM, FED_EIO the
 *         backend failed: params and state are of no use
 */
fed_status fedtrain_run(const fedtrain_job *job, float *params, float *state, float *loss,
                        fed_error *err) FED_CHECKED;

FED_API_END

#endif
