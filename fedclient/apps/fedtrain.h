/* Declarations that the files of the fedtrain program share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_APP_H
#define FEDTRAIN_APP_H

#include <stdatomic.h>

#include "fed/checkpoint.h"
#include "fedtrain/data.h"

/** The command line. The strings are not copies. */
typedef struct app_options {
    const char *model; /* --model: a name, a text or @FILE; NULL: as the weights' file says */
    const char *weights;
    const char *dataset, *data, *train_part, *test_part;
    const char *optimizer, *augment;
    const char *init, *checkpoint, *csv;
    bool normalise, resume;
    const char *backend; /* of --backend or --device; NULL: the first backend */
    const char *device;
    uint32_t batch, epochs, steps, seed; /* one of epochs and steps is 0 */
    char *const *words;
    size_t word_count;
} app_options;

/** Set by SIGINT and SIGTERM: end after this step. */
extern atomic_int app_interrupted;

/* The commands. FED_ECANCELED: a signal ended the command, and the user was told. */
fed_status app_train(const app_options *o, fed_error *err) FED_CHECKED;
fed_status app_evaluate(const app_options *o, fed_error *err) FED_CHECKED;
fed_status app_export(const app_options *o, fed_error *err) FED_CHECKED;
fed_status app_models(const app_options *o, fed_error *err) FED_CHECKED;

/* ---- Models and weights: fedtrain_weights.c ---- */

/** A model. Its weights and the optimizer's state are in one buffer. */
typedef struct app_weights {
    fed_arch arch;
    fed_layout layout; /* the model's tensors, then "optimizer.state", if any */
    float *values;     /* float32[layout.size]; the first arch.layout.size are the weights */
    float *state;      /* the optimizer's state, a part of values */
} app_weights;

/** Make a model with weights drawn from the seed, and an optimizer's state of zeros (optimizer
 * NULL: none). Free with app_weights_free. */
fed_status app_weights_new(const char *model, const fed_optimizer *optimizer, uint32_t seed,
                           app_weights *w, fed_error *err) FED_CHECKED;

fed_status app_weights_init(const app_options *o, app_weights *w, fed_error *err) FED_CHECKED;

/** Read the weights of --weights, and leave the file open as *file. The model is that of --model,
 * else the one that the file names. Free with app_weights_free and fed_checkpoint_close. */
fed_status app_weights_open(const app_options *o, app_weights *w, fed_checkpoint **file,
                            fed_error *err) FED_CHECKED;
void app_weights_free(app_weights *w);

/** Make a net for batches of --batch. Free with fedtrain_net_free. */
fed_status app_net_new(const app_options *o, const fed_arch *arch, fedtrain_net **net,
                       fed_error *err) FED_CHECKED;

/** Return whether the path is something else than a file or a directory, such as a pipe. */
bool app_is_stream(const char *path);

/** Check that a checkpoint saved at `path` would overwrite no file. FED_EEXIST: it would overwrite
 * one. */
fed_status app_checkpoint_absent(const char *path, fed_error *err) FED_CHECKED;

/* ---- Data: fedtrain_data.c ---- */

/** Open one part, such as "train" or "test", of the data set that --dataset and --data name. Free
 * with fedtrain_data_free. */
fed_status app_data_open(const app_options *o, const char *part, fedtrain_data *data,
                         fed_error *err) FED_CHECKED;

typedef struct app_samples {
    fedtrain_data train, test;
    fedtrain_share share; /* the whole training part */
    fedtrain_augment augment;
    /* means and deviations as text, from app_data_measure; NULL: without --normalise */
    char *normalise;
} app_samples;

/** Open the training and the test part, with --normalise and --augment. Free with
 * app_samples_free, also after a failure; app_samples_free is safe on zeroed samples. */
fed_status app_samples_open(const app_options *o, app_samples *samples, fed_error *err) FED_CHECKED;
void app_samples_free(app_samples *samples);

/** Return the number of steps of an epoch, which use each sample, or token of a text, about
 * once. */
size_t app_data_steps(const fedtrain_data *data, const fed_arch *arch, size_t batch);

/** Measure the channels' means and deviations. *text: "mean deviation mean deviation ...", to be
 * freed with free(). */
fed_status app_data_measure(const fedtrain_data *data, char **text, fed_error *err) FED_CHECKED;

fed_status app_data_normalise(fedtrain_data *data, const char *text, fed_error *err) FED_CHECKED;

/** Print the score: "loss 0.0612, accuracy 98.12 %". A language model has perplexity instead of
 * accuracy, a regression the mean squared error only. */
void app_score_print(const fedtrain_data *data, const fedtrain_score *score);

#endif
