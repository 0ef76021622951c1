/* fedworker train: one rank of a worker group, from its first weights to its last checkpoint. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fed/clock.h"
#include "fedclient/apps/fedworker.h"
#include "fedclient/apps/fedworker_serve.h"
#include "feddc/control.h"

static fed_status check_checkpoint(const fedworker_job *job, fed_error *err) {
    const char *path = job->o->app.checkpoint;
    fed_checkpoint *file = NULL;
    fed_error why = {0};
    if (fed_checkpoint_open(path, &file, &why) != FED_OK) {
        /* no checkpoint yet, or each rank reports its error when it reads the file */
        return FED_OK;
    }
    const fed_status status = fedworker_settings_fit(&job->settings, path, file, err);
    fed_checkpoint_close(file);
    return status;
}

fed_status fedworker_job_open(const fedworker_options *o, fedworker_job *job, fed_error *err) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *job = (fedworker_job){.o = o,
                           .zero_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec};
    const float rate = o->learning_rate > 0 ? o->learning_rate : 1e-3F;
    FED_TRY(fed_optimizer_parse(o->app.optimizer, rate, &job->optimizer, err));
    if (o->learning_rate > 0 && job->optimizer.learning_rate != (double)rate) {
        return fed_fail(err, FED_EINVAL,
                        "--lr %g changes nothing, since --optimizer names lr=%g itself: leave one "
                        "of the two out",
                        (double)rate, job->optimizer.learning_rate);
    }
    const fedworker_words words = {.link = o->link,
                                   .collective = o->collective,
                                   .sync = o->sync,
                                   .codec = o->codec,
                                   .pull = o->pull,
                                   .pull_as = o->pull_as,
                                   .nic = o->nic,
                                   .backend = o->app.backend,
                                   .workers = o->workers,
                                   .late = o->late};
    FED_TRY(fedworker_choose(&words, &job->choice, err));
    job->all_here = job->choice.link->find == NULL && o->listen == NULL && o->join == NULL;
    FED_TRY(app_samples_open(&o->app, &job->samples, err));
    FED_TRY(fedworker_settings_make(o, &job->optimizer, &job->samples, &job->settings, err));
    if (!job->all_here) {
        FED_TRY(fedworker_settings_tell(o, &job->choice, &job->settings, err));
    }
    return o->app.resume ? check_checkpoint(job, err) : FED_OK;
}

void fedworker_job_close(fedworker_job *job) {
    fedworker_stop_close(job->stop);
    fedworker_settings_free(&job->settings);
    app_samples_free(&job->samples);
}

typedef struct rank {
    const fedworker_job *job;
    const fedworker_entry *entry;
    app_weights weights;
    /* measuring: for a text, a second net for measuring, because such a net keeps a state between
     * batches; else NULL */
    fedtrain_net *net, *measuring;
    feddc_worker *worker;
    feddc_trace *trace;
    feddc_worker_tally *tally;
    /* per_epoch: steps per epoch while the worker group keeps its size */
    uint32_t per_epoch, steps;
    uint64_t per_pass;    /* batches in one pass through the data */
    uint32_t base_step;   /* the first step with the present number of workers */
    uint64_t base_walked; /* batches that all workers took before base_step */
    fedtrain_score score;
    int64_t began_ms;
} rank;

static bool is_first(const rank *r) {
    return feddc_worker_rank(r->worker) == 0;
}

static bool may_begin(void *user, uint32_t step) {
    const rank *r = user;
    return fedworker_stop_may_begin(r->job->stop, step, r->job->all_here);
}

static fed_status make_worker(rank *r, fed_error *err) {
    const fedworker_job *job = r->job;
    const fedworker_options *o = job->o;
    feddc_worker_options w = {.exchange = {.link = job->choice.link,
                                           .collective = job->choice.collective,
                                           .codec = o->codec,
                                           .pull = o->pull,
                                           .nic = o->nic,
                                           .small = o->small,
                                           .bucket = o->bucket,
                                           .late = o->late,
                                           .trace = r->trace},
                              .sync = job->choice.sync,
                              .at_owners = job->choice.at_owners,
                              .local_rate = (double)o->local_rate,
                              .arch = &r->weights.arch,
                              .job = {.net = r->net,
                                      .optimizer = job->optimizer,
                                      .batch = o->app.batch,
                                      .seed = o->app.seed,
                                      .augment = job->samples.augment},
                              .elastic = r->entry->elastic,
                              .watch = r->entry->watch,
                              .may_begin = may_begin,
                              .user = r};
    fedtrain_job_use(&w.job, &job->samples.train, &job->samples.share);
    return feddc_worker_new(&w, r->weights.values, r->weights.state, &r->worker, err);
}

static fed_status resume(rank *r, fed_error *err) {
    const char *path = r->job->o->app.checkpoint;
    fed_error why = {0};
    if (path == NULL) {
        return FED_OK;
    }
    if (!r->job->o->app.resume) {
        return app_checkpoint_absent(path, err);
    }
    const fed_status status =
        feddc_worker_resume(r->worker, path, &r->weights.layout, r->weights.values, &why);
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", why.text);
}

static fed_status get_ready(rank *r, fed_error *err) {
    const fedworker_job *job = r->job;
    const app_options *o = &job->o->app;
    FED_TRY(app_weights_new(o->model, &job->optimizer, o->seed, &r->weights, err));
    FED_TRY(app_weights_init(o, &r->weights, err));
    FED_TRY(fedtrain_data_fits(&job->samples.train, &r->weights.arch, err));
    FED_TRY(app_net_new(o, &r->weights.arch, &r->net, err));
    if (job->samples.test.is_text) {
        FED_TRY(app_net_new(o, &r->weights.arch, &r->measuring, err));
    }
    r->tally = calloc(FEDDC_RANKS, sizeof *r->tally);
    if (r->tally == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the workers' reports");
    }
    if (job->o->trace != NULL) {
        FED_TRY(feddc_trace_open(r->entry->place.rank, job->choice.ranks, 1 << 16, &r->trace, err));
    }
    FED_TRY(make_worker(r, err));
    return resume(r, err);
}

static void free_rank(rank *r, bool orderly) {
    feddc_worker_free(r->worker, orderly);
    feddc_trace_close(r->trace);
    free(r->tally);
    fedtrain_net_free(r->measuring);
    fedtrain_net_free(r->net);
    app_weights_free(&r->weights);
}

/* Epochs are passes through the data. While a worker group keeps its size, an epoch has per_epoch
 * steps. After a change of the size, the batches that all workers took are counted. */

static bool has_changed(const rank *r) {
    return r->base_walked != (uint64_t)r->base_step * feddc_worker_count(r->worker);
}

static uint64_t walked_at(const rank *r, uint32_t step) {
    return r->base_walked + (uint64_t)(step - r->base_step) * feddc_worker_count(r->worker);
}

/* The epoch of the next step, from 1. */
static uint64_t epoch_after(const rank *r, uint32_t step) {
    return has_changed(r) ? walked_at(r, step) / r->per_pass + 1 : step / r->per_epoch + 1;
}

/* The epoch of the last step that was done, from 1. */
static uint64_t epoch_before(const rank *r, uint32_t step) {
    const uint64_t workers = feddc_worker_count(r->worker), walked = walked_at(r, step);
    if (!has_changed(r)) {
        return ((uint64_t)step + r->per_epoch - 1) / r->per_epoch;
    }
    return walked > workers ? (walked - workers) / r->per_pass + 1 : 1;
}

/* The number of steps after which this epoch is over. */
static uint32_t epoch_end(const rank *r, uint64_t epoch) {
    const uint64_t workers = feddc_worker_count(r->worker), wanted = epoch * r->per_pass;
    const uint64_t left = wanted > r->base_walked ? wanted - r->base_walked : 0;
    const uint64_t end =
        has_changed(r) ? r->base_step + (left + workers - 1) / workers : epoch * r->per_epoch;
    return end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
}

/* Count steps and epochs for the present size of the worker group. */
static void count_steps(rank *r) {
    const app_options *o = &r->job->o->app;
    const fedtrain_data *data = &r->job->samples.train;
    const size_t global = (size_t)o->batch * feddc_worker_count(r->worker);
    r->per_pass = app_data_steps(data, &r->weights.arch, o->batch);
    r->per_epoch = (uint32_t)app_data_steps(data, &r->weights.arch, global);
    r->base_step = feddc_worker_step(r->worker);
    r->base_walked = feddc_worker_walked(r->worker);
    r->steps = o->steps > 0 ? o->steps : epoch_end(r, o->epochs);
}

static uint32_t next_pause(const rank *r, uint32_t step) {
    const uint32_t every = r->job->o->every;
    uint32_t pause = epoch_end(r, epoch_after(r, step));
    if (every > 0 && step - step % every + every < pause) {
        pause = step - step % every + every;
    }
    return pause < r->steps ? pause : r->steps;
}

static fed_status save(rank *r, fed_error *err) {
    const app_options *o = &r->job->o->app;
    if (o->checkpoint == NULL) {
        return FED_OK;
    }
    const fedworker_settings *s = &r->job->settings;
    const char *notes[2 * FEDWORKER_SETTINGS + 3] = {"format", "pt"};
    size_t count = 2;
    for (size_t k = 0; k < s->count; k++) {
        notes[count++] = s->row[k].name;
        notes[count++] = s->row[k].value;
    }
    return feddc_worker_save(r->worker, o->checkpoint, &r->weights.layout, r->weights.values, notes,
                             err);
}

/* Measure the model on this rank's part of the test samples; of a text rank 0 has all. */
static fed_status measure_part(const rank *r, fedtrain_score *part, fed_error *err) {
    const size_t batch = r->job->o->app.batch;
    const fedtrain_data *test = &r->job->samples.test;
    const size_t ranks = feddc_worker_count(r->worker), k = feddc_worker_rank(r->worker);
    const size_t first = test->set.count * k / ranks;
    const size_t n = test->set.count * (k + 1) / ranks - first;
    if (test->is_text || n == 0) {
        return test->is_text && k == 0
                   ? fedtrain_data_score(r->measuring, batch, test, r->weights.values, part, err)
                   : FED_OK;
    }
    fedtrain_shard shard = {.index = malloc(n * sizeof *shard.index), .count = n};
    if (shard.index == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a list of %zu test samples", n);
    }
    for (size_t i = 0; i < n; i++) {
        shard.index[i] = (uint32_t)(first + i);
    }
    const fed_status status =
        fedtrain_evaluate_shard(r->net, batch, &test->set, &shard, r->weights.values, part, err);
    free(shard.index);
    return status;
}

/* What ranks tell each other, also between machines of 32 and 64 bits. */
typedef struct told_score {
    uint64_t samples, correct;
    double loss;
} told_score;

/* Measure the model, each rank a part. A loss that is not finite is an error of all ranks, so that
 * none goes on without the others. */
static fed_status measure(rank *r, fed_error *err) {
    fedtrain_score own = {0}, part[FEDDC_RANKS];
    told_score told[FEDDC_RANKS];
    fed_error why = {0};
    const fed_status status = measure_part(r, &own, &why);
    if (status == FED_ENONFINITE) {
        own = (fedtrain_score){.samples = 1, .loss = NAN};
    } else if (status != FED_OK) {
        return fed_fail(err, status, "%s", why.text);
    }
    const told_score mine = {own.samples, own.correct, (double)own.loss};
    FED_TRY(feddc_worker_gather(r->worker, &mine, sizeof mine, told, err));
    for (uint32_t k = 0; k < feddc_worker_count(r->worker); k++) {
        part[k] = (fedtrain_score){.samples = (size_t)told[k].samples,
                                   .correct = (size_t)told[k].correct,
                                   .loss = (float)told[k].loss};
    }
    return fedtrain_score_join(part, feddc_worker_count(r->worker), &r->score, err);
}

static void print_score(const rank *r, uint32_t step, double seconds) {
    double loss = 0;
    for (uint32_t k = 0; k < feddc_worker_count(r->worker); k++) {
        loss += r->tally[k].loss / feddc_worker_count(r->worker);
    }
    printf("epoch %" PRIu64 ", step %" PRIu32 ": training loss %.4f; test: ", epoch_before(r, step),
           step, loss);
    app_score_print(&r->job->samples.test, &r->score);
    printf("; %.1f s\n", seconds);
    fflush(stdout);
}

/* Set *stops to whether any rank was told to stop. With all_here the ranks share memory for
 * this; else they exchange their answers at each pause. */
static fed_status must_stop(rank *r, uint32_t step, bool *stops, fed_error *err) {
    uint64_t own = fedworker_stop_told(r->job->stop), all[FEDDC_RANKS];
    if (r->job->all_here) {
        *stops = !fedworker_stop_may_begin(r->job->stop, step, true);
        return FED_OK;
    }
    FED_TRY(feddc_worker_gather(r->worker, &own, sizeof own, all, err));
    *stops = false;
    for (uint32_t k = 0; k < feddc_worker_count(r->worker); k++) {
        *stops = *stops || all[k] != 0;
    }
    return FED_OK;
}

static fed_status stop_if_told(rank *r, uint32_t step, fed_error *err) {
    const char *path = r->job->o->app.checkpoint;
    bool stops = false;
    FED_TRY(must_stop(r, step, &stops, err));
    if (!stops) {
        return FED_OK;
    }
    if (is_first(r)) {
        fprintf(stderr, "fedworker: stopped after step %" PRIu32 " of %" PRIu32 "; %s%s\n", step,
                r->steps,
                path != NULL ? "--resume goes on from "
                             : "nothing is kept, as there is no --checkpoint",
                path != NULL ? path : "");
    }
    return FED_ECANCELED;
}

static fed_status train(rank *r, fed_error *err) {
    uint32_t step = feddc_worker_step(r->worker);
    int64_t epoch_ms = fed_clock_monotonic_ms();
    count_steps(r);
    do { /* runs once even if no step is left, to measure the model */
        const uint32_t end = epoch_end(r, epoch_after(r, step));
        const uint32_t pause = step < r->steps ? next_pause(r, step) : step;
        FED_TRY(feddc_worker_run(r->worker, pause - step, err));
        step = feddc_worker_step(r->worker);
        FED_TRY(feddc_worker_settle(r->worker, r->tally, err));
        FED_TRY(save(r, err));
        if (step == end || step >= r->steps) {
            const int64_t now_ms = fed_clock_monotonic_ms();
            FED_TRY(measure(r, err));
            if (is_first(r)) {
                print_score(r, step, 1e-3 * (double)(now_ms - epoch_ms));
            }
            epoch_ms = fed_clock_monotonic_ms();
        }
        if (step < r->steps) {
            FED_TRY(stop_if_told(r, step, err));
        }
    } while (step < r->steps);
    return FED_OK;
}

static fed_status meet_again(rank *r, const char *broke, const feddc_worker_group **group,
                             fed_error *err) {
    const uint32_t completed = feddc_worker_completed(r->worker);
    FED_TRY(feddc_watch_next(r->entry->watch, completed, broke, group, err));
    if ((*group)->place.rank == 0) {
        fprintf(stderr,
                "fedworker: %" PRIu32 " of the worker group go on after step %" PRIu32
                "; residuals and gradients under way are lost\n",
                (*group)->place.size, completed);
    }
    return FED_OK;
}

static fed_status join_and_train(rank *r, const feddc_place *place, fed_error *err) {
    FED_TRY(feddc_worker_join(r->worker, place, err));
    if (feddc_worker_remark(r->worker)[0] != '\0') {
        fprintf(stderr, "fedworker: %s\n", feddc_worker_remark(r->worker));
    }
    return feddc_worker_sums_only(r->worker) ? feddc_worker_serve(r->worker, err) : train(r, err);
}

static fed_status train_in_worker_group(rank *r, fed_error *err) {
    feddc_place place = r->entry->place;
    while (true) {
        fed_error why = {0};
        const fed_status status = join_and_train(r, &place, &why);
        if (status == FED_OK || !r->entry->elastic || !fedworker_is_broken(status)) {
            return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
        }
        const feddc_worker_group *group = NULL;
        FED_TRY(meet_again(r, why.text, &group, err));
        place = group->place;
        place.congestion = r->job->o->congestion;
    }
}

/* Set *zero to time 0 of the trace by this rank's clock. All ranks use rank 0's time 0, corrected
 * by the difference of the clocks between machines. */
static fed_status find_zero(rank *r, uint64_t *zero, fed_error *err) {
    const fedworker_options *o = r->job->o;
    int64_t offset_us = 0;
    *zero = r->job->zero_ns;
    if (o->listen != NULL || o->join != NULL) {
        (void)feddc_watch_clock(r->entry->watch, &offset_us);
    } else if (r->job->choice.link->find == NULL) {
        return FED_OK;
    }
    *zero += (uint64_t)(1000 * offset_us);
    FED_TRY(feddc_worker_share(r->worker, 0, zero, sizeof *zero, err));
    *zero -= (uint64_t)(1000 * offset_us);
    return FED_OK;
}

static fed_status write_trace(rank *r, fed_error *err) {
    const char *path = r->job->o->trace;
    uint64_t zero = r->job->zero_ns;
    char name[40];
    if (path == NULL) {
        return FED_OK;
    }
    if (!feddc_worker_sums_only(r->worker)) {
        FED_TRY(find_zero(r, &zero, err));
    }
    snprintf(name, sizeof name, "%s %" PRIu32,
             feddc_worker_sums_only(r->worker) ? "aggregator" : "worker",
             feddc_worker_rank(r->worker));
    return feddc_trace_write(r->trace, name, zero, path, err);
}

static fed_status report(rank *r, fed_error *err) {
    if (!is_first(r)) {
        return FED_OK;
    }
    const fedworker_result result = {.job = r->job,
                                     .arch = &r->weights.arch,
                                     .tally = r->tally,
                                     .workers = feddc_worker_count(r->worker),
                                     .step = feddc_worker_step(r->worker),
                                     .score = r->score,
                                     .seconds =
                                         1e-3 * (double)(fed_clock_monotonic_ms() - r->began_ms)};
    FED_TRY(fedworker_print_table(&result, err));
    return fedworker_write_summary(&result, err);
}

static fed_status run(rank *r, fed_error *err) {
    FED_TRY(get_ready(r, err));
    r->began_ms = fed_clock_monotonic_ms();
    FED_TRY(train_in_worker_group(r, err));
    FED_TRY(write_trace(r, err));
    return feddc_worker_sums_only(r->worker) ? FED_OK : report(r, err);
}

fed_status fedworker_rank(const fedworker_job *job, const fedworker_entry *entry, fed_error *err) {
    rank r = {.job = job, .entry = entry};
    const fed_status status = run(&r, err);
    free_rank(&r, status == FED_OK || status == FED_ECANCELED);
    return status;
}
