/* Training on text: where in it each step reads. And what all evaluations share. */
#ifndef FEDTRAIN_TEXT_WALK_H
#define FEDTRAIN_TEXT_WALK_H

#include "fedtrain/train.h"

/** Whether the job's text can be walked. Errors: as fedtrain_run's. */
fed_status fedtrain_text_check(const fedtrain_job *job, fed_error *err) FED_CHECKED;

/** A run begins: what the net remembers becomes what it would of the window before. */
fed_status fedtrain_text_start(const fedtrain_job *job, const float *params,
                               fed_error *err) FED_CHECKED;

/** The round's step-th window of each stream, into net->x and net->label. */
void fedtrain_text_gather(const fedtrain_job *job, size_t step);

/** An evaluation's sums. */
typedef struct fedtrain_tally {
    size_t samples, correct;
    double loss;
} fedtrain_tally;

/** One position more.   score float32[classes] */
void fedtrain_tally_add(fedtrain_tally *tally, const fedtrain_net *net, const float *score,
                        uint32_t label);

/** The means. FED_ENONFINITE the loss is not finite. */
fed_status fedtrain_tally_score(const fedtrain_tally *tally, fedtrain_score *score,
                                fed_error *err) FED_CHECKED;

#endif
