/* A data set of labelled samples or a text, opened by name; and the part of it that a client
 * holds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DATA_H
#define FEDTRAIN_DATA_H

#include "fed/api.h"
#include "fedtrain/split.h"
#include "fedtrain/train.h"

FED_API_BEGIN

/** Read-only once opened: any number of threads and clients share it. */
typedef struct fedtrain_data {
    bool is_text;
    fedtrain_dataset set; /* samples, if !is_text */
    fedtrain_text text;
} fedtrain_data;

/**
 * Open a part, such as "train", of the data set or text of this name: the names are those of
 * fedtrain_dataset_open and fedtrain_text_open.
 *
 * words   the part of a text from which the vocabulary is made; it is read too. Use "train" also
 *         to open "test", so that both have the same vocabulary. Ignored for samples
 * Errors  those of these two functions. Owner: fedtrain_data_free
 */
fed_status fedtrain_data_open(const char *name, const char *directory, const char *part,
                              const char *words, fedtrain_data *data, fed_error *err) FED_CHECKED;

/** Safe on zeroed data. */
void fedtrain_data_free(fedtrain_data *data);

/** Check that this model can be trained on these data. FED_EINVAL, FED_ERANGE: it cannot, and *err
 * says why in a short sentence, such as "samples are 784 values (1x28x28), the model takes 3072
 * (3x32x32)". */
fed_status fedtrain_data_fits(const fedtrain_data *data, const fed_arch *arch,
                              fed_error *err) FED_CHECKED;

/** Call fedtrain_dataset_split or fedtrain_text_split, and return their errors. */
fed_status fedtrain_data_split(const fedtrain_data *data, fedtrain_split split, uint32_t clients,
                               uint64_t seed, fedtrain_partition *partition,
                               fed_error *err) FED_CHECKED;

/** The data that one client trains on. */
typedef struct fedtrain_share {
    fedtrain_shard shard; /* indices of samples, or of the text's units */
    uint32_t *token;      /* uint32[token_count]: the client's units, joined; NULL: samples */
    size_t token_count;
    size_t size; /* number of samples or tokens: the weight of the client's updates */
} fedtrain_share;

/** Client k's part, as copies of its own. FED_EINVAL k is no client of the partition; FED_ENOMEM.
 * Owner: fedtrain_share_free, which is safe on a zeroed share. */
fed_status fedtrain_share_take(const fedtrain_data *data, const fedtrain_partition *partition,
                               uint32_t k, fedtrain_share *share, fed_error *err) FED_CHECKED;
void fedtrain_share_free(fedtrain_share *share);

/**
 * Take a part of a share out of it, so that it is not trained on: a task's `holdout`.
 *
 * fraction  0 to below 1, rounded to whole samples or tokens. Above 0 at least one sample (two
 *           tokens) is taken, where at least as many are left; else none
 * seed      with the share, decides which samples; of a text they are the last tokens
 * *held     the part taken; of a share that is too small it is empty
 * Errors    FED_ENOMEM: nothing is taken. Owner: fedtrain_share_free, for both
 */
fed_status fedtrain_share_hold(fedtrain_share *share, double fraction, uint64_t seed,
                               fedtrain_share *held, fed_error *err) FED_CHECKED;

/** Let a job train on a share of data. data and share must outlive the job. The job's other fields
 * stay as they are. */
void fedtrain_job_use(fedtrain_job *job, const fedtrain_data *data, const fedtrain_share *share);

/** Call fedtrain_evaluate_shard or fedtrain_evaluate_text on a share of the data. */
fed_status fedtrain_share_score(fedtrain_net *net, size_t batch, const fedtrain_data *data,
                                const fedtrain_share *share, const float *params,
                                fedtrain_score *score, fed_error *err) FED_CHECKED;

/** Call fedtrain_evaluate or fedtrain_evaluate_text on all the data. */
fed_status fedtrain_data_score(fedtrain_net *net, size_t batch, const fedtrain_data *data,
                               const float *params, fedtrain_score *score,
                               fed_error *err) FED_CHECKED;

FED_API_END

#endif
