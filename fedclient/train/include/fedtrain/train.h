/* Local training and evaluation: what a client does with a task. */
#ifndef FEDTRAIN_TRAIN_H
#define FEDTRAIN_TRAIN_H

#include "fed/api.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"
#include "fedtrain/split.h"
#include "fedtrain/split.h"

FED_API_BEGIN

/** A client's local work for one round. */
typedef struct fedtrain_job {
    fedtrain_net *net; /* max_batch >= batch */
    fed_optimizer optimizer;
    const fedtrain_dataset *set; /* samples, and which of them; or a text: */
    const fedtrain_shard *shard;
    const uint32_t *token; /* uint32[token_count], as of fedtrain_text_join; NULL: samples */
    size_t token_count;
    size_t steps, batch;
    uint64_t seed; /* with client and round, names the order of the samples */
    uint32_t client, round;
    fedtrain_augment augment; /* zeroed: samples as they are */
    size_t done;              /* of the round's steps, by an earlier run: these are left out */

    /* NULL, or called after each step, with its number in the round, from 0, and its loss; false:
     * the run ends here, which is no error. */
    bool (*after_step)(void *user, size_t step, float loss);
    void *user;
} fedtrain_job;

/** Further than any task's last round: a device that trains for the k-th time in an asynchronous
 * round r, k from 0, takes r + k * this for job->round, and so other samples each time. */
enum { FEDTRAIN_AGAIN = 1000000 };

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
 * params float32[layout.size], in and out    state fedtrain_optimizer_state_size floats, in and out
 * loss   mean over the steps it ran          Errors FED_EINVAL an empty shard, no steps, a batch
 * over max_batch, samples or labels that do not fit the net, augmentation of a table, a text of T
 * tokens or less; FED_ERANGE a token that the model doesn't know;
 * FED_ENONFINITE a step's loss (the sentence says which step; params and state are as that step
 * found them); FED_ENOMEM
 */
fed_status fedtrain_run(const fedtrain_job *job, float *params, float *state, float *loss,
                        fed_error *err) FED_CHECKED;

/** How good a model is. */
typedef struct fedtrain_score {
    size_t samples, correct; /* correct is 0 where the data has targets: no answer is just right */
    float loss;              /* mean: cross-entropy, or squared error */
} fedtrain_score;

/** Can this model be trained on these data? FED_EINVAL, FED_ERANGE: no, and *err says why. */
fed_status fedtrain_dataset_fits(const fedtrain_dataset *set, const fed_arch *arch,
                                 fed_error *err) FED_CHECKED;
fed_status fedtrain_text_fits(const fedtrain_text *text, const fed_arch *arch,
                              fed_error *err) FED_CHECKED;

/** Measure params on a whole dataset. Errors: as fedtrain_run's. */
fed_status fedtrain_evaluate(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                             const float *params, fedtrain_score *score,
                             fed_error *err) FED_CHECKED;

/**
 * Measure params on a text, its words behind each other but the first: samples are words, and the
 * perplexity is e^loss. The text is read in `batch` streams of equal length.
 * token uint32[count]    Errors: as fedtrain_run's; FED_EINVAL also a text of less than 2 tokens
 */
fed_status fedtrain_evaluate_text(fedtrain_net *net, size_t batch, const uint32_t *token,
                                  size_t count, const float *params, fedtrain_score *score,
                                  fed_error *err) FED_CHECKED;

FED_API_END

#endif
