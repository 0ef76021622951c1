/* Training on text: where in the text each step reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_TEXT_WALK_H
#define FEDTRAIN_TEXT_WALK_H

#include "fedtrain/job.h"

/** FED_EINVAL: the model does not learn from text. */
fed_status fedtrain_text_check_arch(const fed_arch *arch, fed_error *err) FED_CHECKED;

/** FED_ERANGE: a token that the model does not know. */
fed_status fedtrain_text_check_tokens(const fed_arch *arch, const uint32_t *token, size_t count,
                                      fed_error *err) FED_CHECKED;

/** Check that the job's text can be read in windows. Errors: as fedtrain_run's. */
fed_status fedtrain_text_check(const fedtrain_job *job, fed_error *err) FED_CHECKED;

/** Begin a run: set the net's LSTM state to the state at the end of the window before the run. */
fed_status fedtrain_text_start(const fedtrain_job *job, const float *params,
                               fed_error *err) FED_CHECKED;

/** Copy the round's step-th window of each stream into net->x and net->label. */
void fedtrain_text_gather(const fedtrain_job *job, size_t step);

/** Fill sample b of net->x with `count` tokens, and of net->label with the token after each; the
 * rest of the window becomes 0. */
void fedtrain_text_copy_window(const fedtrain_net *net, const uint32_t *token, size_t count,
                               size_t b);

#endif
