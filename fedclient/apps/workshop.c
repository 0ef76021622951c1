/* A device's training: libfedclient's callback, which trains or measures by libfedtrain. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/workshop.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/own_metrics.h"
#include "fedtrain/personal.h"

enum { EVALUATE_BATCH = 250, EVALUATE_TEXT_BATCH = 10 };

/** The data is kept for all tasks; forget_task drops what belongs to one task. */
struct workshop {
    const workshop_settings *settings;
    const fedclient_platform *platform;
    fedtrain_data data;    /* the training set, or the test set to evaluate on */
    uint32_t round, again; /* the last trained round, and how often it was repeated */
    unsigned slot;
    uint64_t task; /* the task that the members below belong to; 0: none yet */
    fed_arch arch;
    fedtrain_net *net;
    size_t net_batch;
    fedtrain_share share, held; /* held: what the task's holdout takes out of the share */
    fed_optimizer optimizer;
    float *memory;
    size_t memory_count;
};

enum { OPTIMIZER_KEY = 24 };

/** Return the key under which the optimizer's state is stored. The first slot's key has no
 * number. */
static const char *optimizer_key(const workshop *w, char key[OPTIMIZER_KEY]) {
    if (w->slot == 0) {
        return "optimizer";
    }
    snprintf(key, OPTIMIZER_KEY, "optimizer%u", w->slot);
    return key;
}

/** Read the optimizer's state, if one is stored for this task. The stored value is the task's
 * number, then the state. */
static fed_status optimizer_load(workshop *w, uint64_t task, fed_error *err) {
    uint8_t *data = NULL;
    size_t len = 0, size = w->memory_count * sizeof *w->memory;
    char key[OPTIMIZER_KEY];
    fed_status status =
        w->platform->get(w->platform->user, optimizer_key(w, key), &data, &len, err);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    FED_TRY(status);
    fed_reader r;
    fed_reader_init(&r, data, len);
    if (fed_read_u64(&r) == task && fed_reader_left(&r) == size) {
        memcpy(w->memory, data + r.pos, size);
    }
    free(data);
    return FED_OK;
}

static fed_status optimizer_save(const workshop *w, fed_error *err) {
    if (w->memory_count == 0 || w->optimizer.stateless) {
        return FED_OK;
    }
    fed_writer out;
    fed_writer_growing(&out);
    fed_write_u64(&out, w->task);
    fed_write_bytes(&out, w->memory, w->memory_count * sizeof *w->memory);
    fed_status status = out.status;
    if (status == FED_OK) {
        char key[OPTIMIZER_KEY];
        status = w->platform->put(w->platform->user, optimizer_key(w, key), out.data, out.len, err);
    }
    fed_writer_free(&out);
    return status;
}

static fed_status take_share(workshop *w, const fed_task *task, fed_error *err) {
    const workshop_settings *s = w->settings;
    fedtrain_partition all;
    FED_TRY(fedtrain_data_split(&w->data, s->split, s->shards, task->seed, &all, err));
    fed_status status = fedtrain_share_take(&w->data, &all, s->shard, &w->share, err);
    fedtrain_partition_free(&all);
    return status == FED_OK
               ? fedtrain_share_hold(&w->share, (double)task->holdout, task->seed, &w->held, err)
               : status;
}

static fed_status normalise(workshop *w, const fedtrain_dataset *by, const uint32_t *index,
                            size_t count, fed_error *err) {
    fed_status status = fedtrain_dataset_normalise_by(&w->data.set, by, index, count);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "can't normalise the samples: %s",
                                       status == FED_EINVAL
                                           ? "the training set has a different number of channels, "
                                             "or values too large for a float"
                                           : fed_status_text(status));
}

/** An evaluating device has no shard, so normalise by the whole training set. */
static fed_status normalise_test_set(workshop *w, fed_error *err) {
    fedtrain_data train = {0};
    FED_TRY(
        fedtrain_data_open(w->settings->dataset, w->settings->data, "train", "train", &train, err));
    fed_status status = normalise(w, &train.set, NULL, train.set.count, err);
    fedtrain_data_free(&train);
    return status;
}

static fed_status fit_optimizer(workshop *w, const fed_task *task, fed_error *err) {
    size_t count = fedtrain_optimizer_state_size(&w->optimizer, w->arch.trained);
    if (w->memory != NULL && count == w->memory_count) {
        return FED_OK;
    }
    free(w->memory);
    w->memory_count = count;
    w->memory = calloc(count + 1, sizeof *w->memory);
    FED_REQUIRE(w->memory != NULL, FED_ENOMEM);
    return optimizer_load(w, task->id, err);
}

/** Return the bytes of a sample's values, the outputs of all layers among them. A backend that
 * merges layers takes less. */
static uint64_t sample_bytes(const fed_arch *arch) {
    uint64_t values = (uint64_t)arch->input.c * arch->input.h * arch->input.w;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_shape out = arch->layers[l].out;
        values += (uint64_t)out.c * out.h * out.w;
    }
    return values * sizeof(float);
}

/** Return how many samples to measure at a time. The number is small for language models, whose
 * scores can take more than 1 MB a sample. */
static size_t evaluate_batch(const workshop *w) {
    const size_t wanted = w->data.is_text ? EVALUATE_TEXT_BATCH : EVALUATE_BATCH;
    const uint64_t bytes = sample_bytes(&w->arch), most = w->settings->most_net_bytes;
    const uint64_t room = most == 0 || bytes == 0 ? wanted : most / bytes;
    return room >= wanted ? wanted : room > 0 ? (size_t)room : 1;
}

/** Is there room for the values of a batch? */
static fed_status check_memory(const workshop *w, size_t batch, fed_error *err) {
    const uint64_t bytes = sample_bytes(&w->arch), most = w->settings->most_net_bytes;
    return most == 0 || bytes == 0 || batch <= most / bytes
               ? FED_OK
               : fed_fail(err, FED_ERANGE,
                          "a batch of %zu samples takes up to %.1f MB of memory, and this device "
                          "gives a task %.1f MB",
                          batch, 1e-6 * (double)batch * (double)bytes, 1e-6 * (double)most);
}

static fed_status fit_net(workshop *w, const fed_task *task, fed_error *err) {
    const workshop_settings *s = w->settings;
    size_t batch = s->evaluate ? evaluate_batch(w) : task->batch;
    if (w->net != NULL && batch <= w->net_batch) {
        return FED_OK;
    }
    FED_TRY(check_memory(w, batch, err));
    fedtrain_net_free(w->net);
    w->net = NULL;
    w->net_batch = batch;
    fed_error why = {0};
    fed_status status = fedtrain_net_new(&w->arch, batch, s->backend, &w->net, &why);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "can't make a net of \"%.200s\": %s", task->model, why.text);
}

static void forget_task(workshop *w) {
    fedtrain_net_free(w->net);
    fedtrain_share_free(&w->share);
    fedtrain_share_free(&w->held);
    fed_arch_free(&w->arch);
    free(w->memory);
    *w = (workshop){
        .settings = w->settings, .platform = w->platform, .data = w->data, .slot = w->slot};
}

/** model: the text of the task's model, which the task itself may only name. */
static fed_status begin_task(workshop *w, const fed_task *task, const char *model, fed_error *err) {
    if (w->task == task->id) {
        return FED_OK;
    }
    forget_task(w);
    FED_TRY(fed_arch_parse(model, &w->arch, err));
    FED_TRY(fedtrain_data_fits(&w->data, &w->arch, err));
    if (!w->settings->evaluate) {
        FED_TRY(take_share(w, task, err));
    }
    if (w->settings->normalise && !w->settings->evaluate) {
        const fedtrain_shard *own = &w->share.shard;
        FED_TRY(normalise(w, &w->data.set, own->index, own->count, err));
    }
    w->task = task->id;
    return FED_OK;
}

/** An error that may pass stays as it is, and the library tries again. Others become
 * FED_EDECLINED: the device declines the task. */
static fed_status decline(fed_status status, const fed_error *why, fed_error *err) {
    const bool may_pass = status == FED_ENONFINITE || status == FED_ENOMEM || status == FED_EBUSY;
    return fed_fail(err, may_pass ? status : FED_EDECLINED, "%s",
                    why->text[0] != '\0' ? why->text : fed_status_text(status));
}

static fed_status equip_from_task(workshop *w, const fed_task *task, const char *model,
                                  fed_error *err) {
    FED_TRY(begin_task(w, task, model, err));
    if (w->settings->group == NULL) { /* each worker of a worker group makes a net of its own */
        FED_TRY(fit_net(w, task, err));
    }
    return w->settings->evaluate
               ? FED_OK
               : fed_optimizer_parse(task->optimizer, task->learning_rate, &w->optimizer, err);
}

static fed_status equip(workshop *w, const fedclient_round *round, fed_error *err) {
    const fed_task *task = round->task;
    fed_error why = {0};
    fed_status status = equip_from_task(w, task, round->arch->text, &why);
    if (status != FED_OK) {
        return decline(status, &why, err);
    }
    return w->settings->evaluate ? FED_OK : fit_optimizer(w, task, err);
}

static void mask(void *user, const float *sent, size_t count) {
    workshop *w = user;
    (void)count;
    fedtrain_optimizer_mask(&w->optimizer, w->memory, sent, w->arch.trained);
}

typedef struct owing {
    const workshop *workshop;
    float *values;
    float sign;
} owing;

static void take_owed(void *user, const float *owed, size_t count) {
    const owing *o = user;
    const workshop *w = o->workshop;
    assert(count >= 2 * w->arch.trained);
    (void)count;
    fedtrain_optimizer_owed(&w->optimizer, o->values, owed, o->sign, w->arch.trained);
}

/** With SCAFFOLD and a codec for its control variates: see fedtrain_optimizer_owed. */
static fed_status reckon_owed(const workshop *w, fedclient_round *round, float sign,
                              fed_error *err) {
    owing o = {.workshop = w, .values = round->values, .sign = sign};
    return w->optimizer.scaffold_share > 0 ? fedclient_round_owed(round, take_owed, &o, err)
                                           : FED_OK;
}

typedef struct session {
    fedclient_round *round;
    fed_error over; /* FED_OK while the round is wanted */
} session;

static bool after_step(void *user, size_t step, float loss) {
    session *s = user;
    (void)loss;
    fedclient_round_progress(s->round, (uint32_t)step + 1, s->round->task->local_steps);
    return fedclient_round_wanted(s->round, &s->over) == FED_OK;
}

/** Return whether the training of a round that ended early is kept. If the program ends, nothing is
 * kept, because the device trains again later. With scaffold nothing is kept either, because its
 * control variates need all iterations. */
static bool is_kept(const workshop *w, const session *s) {
    return s->over.status == FED_OK ||
           (s->over.status != FED_ECANCELED && w->optimizer.scaffold_share == 0);
}

static fedtrain_job job_of(const workshop *w, const fedclient_round *round, session *s) {
    fedtrain_job job = {.net = w->net,
                        .optimizer = w->optimizer,
                        .steps = round->task->local_steps,
                        .batch = round->task->batch,
                        .seed = round->task->seed,
                        .client = w->settings->shard,
                        .round = round->round + w->again * FEDTRAIN_AGAIN,
                        .after_step = after_step,
                        .user = s};
    fedtrain_job_use(&job, &w->data, &w->share);
    return job;
}

static fed_status report(const workshop *w, const fedclient_round *round, const char *whose,
                         const fedtrain_score *score, fed_error *err) {
    const bool counts = w->arch.loss != FED_LOSS_SQUARED;
    char name[FED_OWN_NAME];
    snprintf(name, sizeof name, "%s/%s", whose, counts ? "accuracy" : "loss");
    return score->samples == 0
               ? FED_OK
               : fedclient_round_metric(round, name,
                                        counts ? (double)score->correct / (double)score->samples
                                               : (double)score->loss,
                                        err);
}

/** Train this device's own copy of the model. */
static fed_status train_personal(workshop *w, fedclient_round *round, fed_error *err) {
    session s = {.round = round};
    fedtrain_personal made;
    if (w->settings->group != NULL) {
        return fed_fail(err, FED_EDECLINED,
                        "a worker group makes none; for a personal model let this device run "
                        "fedclientd, or leave personal_steps out of the task");
    }
    const fedtrain_job job = job_of(w, round, &s);
    FED_TRY(
        fedtrain_personal_run(&job, &w->data, &w->held, w->net_batch, round->values, &made, err));
    round->samples = (uint32_t)w->share.size;
    round->loss = made.loss;
    FED_TRY(report(w, round, "shared", &made.before, err));
    return report(w, round, "personal", &made.after, err);
}

static fed_status train(workshop *w, fedclient_round *round, fed_error *err) {
    session s = {.round = round};
    FED_TRY(fedclient_round_wanted(round, err));
    w->again = round->round == w->round ? w->again + 1 : 0;
    w->round = round->round;
    if (w->optimizer.mask) {
        FED_TRY(fedclient_round_sent(round, mask, w, err));
    }
    FED_TRY(reckon_owed(w, round, 1, err));
    const fedtrain_job job = job_of(w, round, &s);
    fed_error why = {0};
    const workshop_settings *own = w->settings;
    fed_status status = own->group != NULL
                            ? own->group(own->worker_group_user, round, &job, &w->arch, w->memory,
                                         w->memory_count, &why)
                            : fedtrain_run(&job, round->values, w->memory, &round->loss, &why);
    if (status == FED_EIO && own->group == NULL) { /* a GPU failed: no task can be trained */
        return fed_fail(err, status, "%s", why.text);
    }
    if (status != FED_OK) {
        return decline(status, &why, err);
    }
    if (!is_kept(w, &s)) {
        return fed_fail(err, s.over.status, "%s", s.over.text);
    }
    FED_TRY(reckon_owed(w, round, -1, err));
    round->samples = (uint32_t)w->share.size;
    return optimizer_save(w, err);
}

static fed_status evaluate(workshop *w, fedclient_round *round, fed_error *err) {
    fedtrain_score score = {0};
    fed_error why = {0};
    fed_status status =
        fedtrain_data_score(w->net, evaluate_batch(w), &w->data, round->values, &score, &why);
    if (status != FED_OK) {
        return decline(status, &why, err);
    }
    round->samples = (uint32_t)score.samples;
    round->correct = (uint32_t)score.correct;
    round->loss = score.loss;
    return FED_OK;
}

fed_status workshop_work(void *user, fedclient_round *round, fed_error *err) {
    workshop *w = user;
    w->slot = round->slot;
    FED_TRY(equip(w, round, err));
    if (w->settings->evaluate) {
        return evaluate(w, round, err);
    }
    return round->is_personal ? train_personal(w, round, err) : train(w, round, err);
}

fed_status workshop_prepare(workshop *w, const fed_task *task, fedtrain_job *job,
                            const fed_arch **arch, fed_error *err) {
    FED_TRY(equip_from_task(w, task, task->model, err));
    *job =
        (fedtrain_job){.optimizer = w->optimizer, .steps = task->local_steps, .batch = task->batch};
    fedtrain_job_use(job, &w->data, &w->share);
    *arch = &w->arch;
    return FED_OK;
}

fed_status workshop_open(const workshop_settings *settings, const fedclient_platform *platform,
                         workshop **made, fed_error *err) {
    workshop *w = calloc(1, sizeof *w);
    FED_REQUIRE(w != NULL, FED_ENOMEM);
    w->settings = settings;
    w->platform = platform;
    *made = w;
    FED_TRY(fedtrain_data_open(settings->dataset, settings->data,
                               settings->evaluate ? "test" : "train", "train", &w->data, err));
    if (settings->normalise && w->data.is_text) {
        return fed_fail(
            err, FED_EINVAL,
            "--normalise is for numbers, and this data set is a text: leave the option out");
    }
    return settings->normalise && settings->evaluate ? normalise_test_set(w, err) : FED_OK;
}

uint64_t workshop_classes(const workshop *w) {
    return w->data.set.class_names;
}

void workshop_close(workshop *w) {
    if (w == NULL) {
        return;
    }
    forget_task(w);
    fedtrain_data_free(&w->data);
    free(w);
}
