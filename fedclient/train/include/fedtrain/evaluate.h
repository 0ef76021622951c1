/* Measure how good a model is, on samples or on a text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_EVALUATE_H
#define FEDTRAIN_EVALUATE_H

#include "fed/api.h"
#include "fedtrain/dataset.h"
#include "fedtrain/net.h"
#include "fedtrain/partition.h"

FED_API_BEGIN

typedef struct fedtrain_score {
    size_t samples, correct; /* correct is 0 where the data has targets, not classes */
    float loss;              /* mean: cross-entropy, or squared error */
} fedtrain_score;

/** Measure params on a whole dataset. Errors: as fedtrain_run's. */
fed_status fedtrain_evaluate(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                             const float *params, fedtrain_score *score,
                             fed_error *err) FED_CHECKED;

/** Measure params on some samples of a dataset: those of `shard`. Errors: as fedtrain_run's. */
fed_status fedtrain_evaluate_shard(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                                   const fedtrain_shard *shard, const float *params,
                                   fedtrain_score *score, fed_error *err) FED_CHECKED;

/** Make the score of a data set from those of its parts, of which some, not all, may have no
 * samples. Errors: FED_ENONFINITE the loss of a part is not finite, as fedtrain_evaluate says it */
fed_status fedtrain_score_join(const fedtrain_score *part, size_t count, fedtrain_score *whole,
                               fed_error *err) FED_CHECKED;

/**
 * Measure params on a text. A sample is a word to predict, from the second one on, so the
 * perplexity is e^loss. The text is read in `batch` streams of equal
 * length, except that the last ones may be shorter.
 * token uint32[count]    Errors: as fedtrain_run's; FED_EINVAL also a text of less than 2 tokens
 */
fed_status fedtrain_evaluate_text(fedtrain_net *net, size_t batch, const uint32_t *token,
                                  size_t count, const float *params, fedtrain_score *score,
                                  fed_error *err) FED_CHECKED;

FED_API_END

#endif
