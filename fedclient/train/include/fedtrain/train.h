/* Local training: what a client does with a task. */
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
 * Run job->steps optimizer steps, less those done, from params, in place. Batches walk through the
 * shard, reshuffled each pass: the walk of round r goes on where that of round r - 1 ended, without
 * anything being stored.
 *
 * A text is for models of T tokens that give scores for the word behind each. It is read in `batch`
 * streams, which begin evenly spread over it, a window of T tokens of each at a step, and again
 * from the start when no whole window is left. An LSTM's state goes from window to window, until
 * the streams begin anew; a run that begins within them reads the window before its first once more
 * to come by a state, so that the same job gives the same bits.
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
