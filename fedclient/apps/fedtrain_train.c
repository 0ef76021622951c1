/* fedtrain train: epoch after epoch, with a checkpoint and a line of the curve after each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/gpu.h"
#include "fed/progress.h"
#include "fedclient/apps/fedtrain.h"
#include "fedtrain/device.h"

atomic_int app_interrupted;

/* The notes of a checkpoint: keys and values. On a resume all but the step must be the same. */
enum { NOTES = 8, NOTE_STEP = NOTES - 1 };

typedef struct training {
    const app_options *options;
    fed_optimizer optimizer;
    app_samples samples;
    app_weights weights;
    fedtrain_net *net;

    uint64_t step, steps;
    size_t per_epoch;
    double loss; /* moving average, for the progress line */
    fed_progress progress;
} training;

typedef struct numbers {
    char batch[16], seed[16], step[24];
} numbers;

static void write_notes(const training *t, numbers *n, const char *notes[2 * NOTES + 3]) {
    const app_options *o = t->options;
    snprintf(n->batch, sizeof n->batch, "%" PRIu32, o->batch);
    snprintf(n->seed, sizeof n->seed, "%" PRIu32, o->seed);
    snprintf(n->step, sizeof n->step, "%" PRIu64, t->step);
    const char *const all[2 * NOTES + 3] = {
        "model",     t->weights.arch.text,
        "optimizer", o->optimizer,
        "dataset",   o->dataset,
        "normalise", t->samples.normalise != NULL ? t->samples.normalise : "",
        "augment",   o->augment,
        "batch",     n->batch,
        "seed",      n->seed,
        "step",      n->step,
        "format",    "pt", /* PyTorch's readers of safetensors expect this key */
        NULL};
    memcpy(notes, all, sizeof all);
}

static fed_status save(const training *t, fed_error *err) {
    const char *path = t->options->checkpoint;
    numbers n;
    const char *notes[2 * NOTES + 3];
    write_notes(t, &n, notes);
    return path == NULL
               ? FED_OK
               : fed_checkpoint_save(path, &t->weights.layout, t->weights.values, notes, err);
}

static fed_status check_notes(const training *t, const fed_checkpoint *file, fed_error *err) {
    numbers n;
    const char *notes[2 * NOTES + 3];
    write_notes(t, &n, notes);
    for (size_t i = 0; i < NOTE_STEP; i++) {
        const char *key = notes[2 * i], *now = notes[2 * i + 1];
        const char *then = fed_checkpoint_note(file, key);
        if (then == NULL) {
            return fed_fail(err, FED_EINVAL,
                            "--checkpoint %.150s is no checkpoint of fedtrain: to begin with its "
                            "weights, give this file to --init and name another --checkpoint",
                            t->options->checkpoint);
        }
        if (strcmp(then, now) != 0) {
            return fed_fail(
                err, FED_EINVAL,
                "--checkpoint %.150s was made with another %s, \"%.80s\" and not \"%.80s\": give "
                "the same, or begin with --init and another --checkpoint",
                t->options->checkpoint, key, then, now);
        }
    }
    return FED_OK;
}

static fed_status take_checkpoint(training *t, const fed_checkpoint *file, fed_error *err) {
    FED_TRY(check_notes(t, file, err));
    const char *step = fed_checkpoint_note(file, "step");
    char *end = NULL;
    errno = 0;
    t->step = step != NULL ? strtoull(step, &end, 10) : 0;
    if (step == NULL || errno != 0 || end == step || *end != '\0' || step[0] < '0' ||
        step[0] > '9') {
        return fed_fail(err, FED_EFORMAT,
                        "--checkpoint %s is damaged: the number of its step is not a number",
                        t->options->checkpoint);
    }
    return fed_checkpoint_read(file, &t->weights.layout, t->weights.values, err);
}

static fed_status resume(training *t, fed_error *err) {
    const char *path = t->options->checkpoint;
    fed_checkpoint *file = NULL;
    if (!app_is_stream(path)) { /* if the file can't be written, fail now, not after an epoch */
        fed_file probe;
        FED_TRY(fed_file_create(path, FED_FILE_OUTPUT | 0644, &probe, err));
        fed_file_abandon(&probe);
    }
    if (!t->options->resume) {
        return app_checkpoint_absent(path, err);
    }
    fed_status status = fed_checkpoint_open(path, &file, err);
    if (status == FED_ENOTFOUND) {
        fprintf(stderr, "--resume found no checkpoint: training begins anew\n");
        return FED_OK;
    }
    FED_TRY(status);
    status = take_checkpoint(t, file, err);
    fed_checkpoint_close(file);
    return status;
}

static uint64_t epoch_of(const training *t) {
    return (t->step + t->per_epoch - 1) / t->per_epoch;
}

/* Write one line. The file is opened and closed for each line, so that the file is complete even
 * if the program is killed later. */
static fed_status write_curve(const training *t, const char *mode, const char *line,
                              fed_error *err) {
    const char *path = t->options->csv;
    if (path == NULL) {
        return FED_OK;
    }
    FILE *file = fopen(path, mode);
    int failed = file == NULL || fputs(line, file) < 0;
    failed |= file != NULL && fclose(file) != 0;
    return failed ? fed_fail(err, FED_EIO, "can't write %s: %s", path, strerror(errno)) : FED_OK;
}

static fed_status begin_curve(const training *t, fed_error *err) {
    if (t->step > 0) {
        return FED_OK;
    }
    char line[120];
    snprintf(line, sizeof line, "epoch,step,learning_rate,train_loss,test_loss,%s,seconds\n",
             t->samples.test.is_text ? "test_perplexity" : "test_accuracy");
    return write_curve(t, "w", line, err);
}

static fed_status add_to_curve(const training *t, float loss, const fedtrain_score *score,
                               double seconds, fed_error *err) {
    double rate = fedtrain_optimizer_rate(&t->optimizer, t->weights.state, t->weights.arch.trained);
    char line[200], quality[32] = ""; /* empty for a regression, which has only the loss */
    if (t->samples.test.set.target == NULL) {
        snprintf(quality, sizeof quality, "%.6g",
                 t->samples.test.is_text ? exp((double)score->loss)
                                         : (double)score->correct / (double)score->samples);
    }
    snprintf(line, sizeof line, "%" PRIu64 ",%" PRIu64 ",%.6g,%.6g,%.6g,%s,%.3f\n", epoch_of(t),
             t->step, rate, (double)loss, (double)score->loss, quality, seconds);
    return write_curve(t, "a", line, err);
}

static bool after_step(void *user, size_t step, float loss) {
    training *t = user;
    (void)step;
    t->loss = t->loss == 0 ? (double)loss : 0.98 * t->loss + 0.02 * (double)loss;
    t->step++;
    fed_progress_show(&t->progress, (double)t->step / (double)t->steps,
                      "epoch %" PRIu64 " of %" PRIu64 ", step %" PRIu64 ", loss %.4f", epoch_of(t),
                      (t->steps - 1) / t->per_epoch + 1, t->step, t->loss);
    return t->step < t->steps && app_interrupted == 0;
}

static fed_status run_epoch(training *t, float *loss, fed_error *err) {
    fedtrain_job job = {.net = t->net,
                        .optimizer = t->optimizer,
                        .steps = t->per_epoch,
                        .done = (size_t)(t->step % t->per_epoch),
                        .batch = t->options->batch,
                        .seed = t->options->seed,
                        .round = (uint32_t)(t->step / t->per_epoch),
                        .augment = t->samples.augment,
                        .after_step = after_step,
                        .user = t};
    fedtrain_job_use(&job, &t->samples.train, &t->samples.share);
    return fedtrain_run(&job, t->weights.values, t->weights.state, loss, err);
}

static fed_status report_epoch(training *t, float loss, double seconds, fed_error *err) {
    fedtrain_score score = {0};
    FED_TRY(save(t, err)); /* save first, because measuring may take long */
    fed_progress_wipe(&t->progress);
    fed_progress_show(&t->progress, (double)t->step / (double)t->steps,
                      "epoch %" PRIu64 " is done, measuring", epoch_of(t));
    FED_TRY(fedtrain_data_score(t->net, t->options->batch, &t->samples.test, t->weights.values,
                                &score, err));
    fed_progress_wipe(&t->progress);
    printf("epoch %" PRIu64 ", step %" PRIu64 ": training loss %.4f; test: ", epoch_of(t), t->step,
           (double)loss);
    app_score_print(&t->samples.test, &score);
    printf("; %.1f s\n", seconds);
    fflush(stdout);
    return add_to_curve(t, loss, &score, seconds, err);
}

static fed_status stop(const training *t, fed_error *err) {
    FED_TRY(save(t, err));
    const char *path = t->options->checkpoint;
    fprintf(stderr, "stopped after step %" PRIu64 " of %" PRIu64 "; %s%s\n", t->step, t->steps,
            path != NULL ? "--resume goes on from "
                         : "nothing is kept, as there is no --checkpoint",
            path != NULL ? path : "");
    return FED_ECANCELED;
}

static fed_status run(training *t, fed_error *err) {
    FED_TRY(begin_curve(t, err));
    fed_progress_open(&t->progress, (double)t->step / (double)t->steps);
    while (t->step < t->steps) {
        float loss = 0;
        int64_t start_ms = fed_clock_monotonic_ms();
        fed_status status = run_epoch(t, &loss, err);
        double seconds = 1e-3 * (double)(fed_clock_monotonic_ms() - start_ms);
        if (status != FED_OK || app_interrupted != 0) {
            fed_progress_wipe(&t->progress);
        }
        FED_TRY(status);
        if (app_interrupted == 0 || t->step == t->steps) {
            FED_TRY(report_epoch(t, loss, seconds, err));
        }
        if (app_interrupted != 0 && t->step < t->steps) {
            return stop(t, err);
        }
    }
    return FED_OK;
}

static fed_status get_ready(training *t, fed_error *err) {
    const app_options *o = t->options;
    if (o->model == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--model is missing: give a name that `fedtrain models` lists, a text of "
                        "layers, or @FILE");
    }
    FED_TRY(fed_optimizer_parse(o->optimizer, 1e-3F, &t->optimizer, err));
    FED_TRY(app_samples_open(o, &t->samples, err));
    FED_TRY(app_weights_new(o->model, &t->optimizer, o->seed, &t->weights, err));
    const fed_arch *arch = &t->weights.arch;
    FED_TRY(app_net_new(o, arch, &t->net, err));
    t->per_epoch = app_data_steps(&t->samples.train, arch, o->batch);
    t->steps = o->steps > 0 ? o->steps : (uint64_t)o->epochs * t->per_epoch;
    FED_TRY(app_weights_init(o, &t->weights, err));
    return o->checkpoint != NULL ? resume(t, err) : FED_OK;
}

static void say_start(const training *t) {
    const app_options *o = t->options;
    fedtrain_memory memory = fedtrain_net_memory(t->net);
    size_t kept = t->weights.layout.size * sizeof(float);
    const fed_gpu *gpu = fedtrain_net_gpu(t->net);
    const char *computes =
        gpu != NULL ? fed_gpu_info_of(gpu)->card : fedtrain_isa(fedtrain_net_backend(t->net));
    printf("%zu parameters; %s, batch %" PRIu32 ", %zu steps an epoch; %.1f MB of memory, %s\n",
           t->weights.arch.trained, o->optimizer, o->batch, t->per_epoch,
           1e-6 * (double)(memory.total + kept), computes);
    if (t->step > 0) {
        printf("going on after step %" PRIu64 "%s\n", t->step,
               t->step < t->steps ? "" : ": that was the last one; more --epochs would train on");
    }
    fflush(stdout);
}

fed_status app_train(const app_options *o, fed_error *err) {
    training t = {.options = o};
    fed_status status = get_ready(&t, err);
    if (status == FED_OK) {
        say_start(&t);
        status = run(&t, err);
    }
    fedtrain_net_free(t.net);
    app_weights_free(&t.weights);
    app_samples_free(&t.samples);
    return status;
}
