/* Trains a client on its shard of the data, or measures a model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/clients/train_callback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/clients/run_log.h"
#include "deploy/sim/conditions/streams.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"

enum { EVALUATE_BATCH = 100, BATCH_LIMIT = 4096, HOLD_MS = 20000, SEED_BITS = 32 };

/** Return how many samples to measure at a time: EVALUATE_BATCH, or the task's batch if that is
 * larger. A language model uses the task's batch, because its scores take much memory. */
static size_t evaluate_batch(const fedclient_round *round) {
    size_t batch = round->task->batch;
    return batch < EVALUATE_BATCH && round->arch->words == 0 ? EVALUATE_BATCH : batch;
}

static fed_status fit_worker(const sim_client *client, const fedclient_round *round,
                             fed_error *err) {
    sim_worker *worker = client->worker;
    size_t batch = evaluate_batch(round);
    if (worker->net != NULL && strcmp(worker->arch.text, round->arch->text) == 0 &&
        batch <= worker->batch) {
        return FED_OK;
    }
    if (batch > BATCH_LIMIT) {
        return fed_fail(err, FED_ERANGE,
                        "the task's batch of %zu samples is over fedsim's limit of %d", batch,
                        BATCH_LIMIT);
    }
    fedtrain_net_free(worker->net);
    fed_arch_free(&worker->arch);
    worker->net = NULL;
    worker->batch = batch;
    FED_TRY(fed_arch_parse(round->arch->text, &worker->arch, err));
    return fedtrain_net_new(&worker->arch, batch, sim_options_backend(client->clients->options),
                            &worker->net, err);
}

/** Add uniform noise in [-8, 8) to the values of a hostile client. The first clients, as many as
 * the fraction options->hostile says, are hostile. */
static void spoil(const sim_client *client, const fedclient_round *round) {
    const sim_options *o = client->clients->options;
    if (client->k >= (uint32_t)(o->hostile * (double)o->clients)) {
        return;
    }
    fed_rng rng;
    fed_rng_init(&rng, o->seed, client->k, round->round);
    for (size_t i = 0; i < round->arch->trained; i++) {
        round->values[i] += 16.0f * fed_rng_float(&rng) - 8.0f;
    }
}

typedef struct masking {
    const fed_optimizer *optimizer;
    float *state;
    size_t trained;
} masking;

static void mask(void *user, const float *sent, size_t count) {
    const masking *m = user;
    (void)count;
    fedtrain_optimizer_mask(m->optimizer, m->state, sent, m->trained);
}

typedef struct owing {
    const fed_optimizer *optimizer;
    float *values;
    float sign;
    size_t trained;
} owing;

static void take_owed(void *user, const float *owed, size_t count) {
    const owing *o = user;
    (void)count;
    fedtrain_optimizer_owed(o->optimizer, o->values, owed, o->sign, o->trained);
}

/** With SCAFFOLD and a codec for its control variates: see fedtrain_optimizer_owed. */
static fed_status reckon_owed(const fed_optimizer *optimizer, fedclient_round *round, float sign,
                              fed_error *err) {
    owing o = {optimizer, round->values, sign, round->arch->trained};
    return optimizer->scaffold_share > 0 ? fedclient_round_owed(round, take_owed, &o, err) : FED_OK;
}

/** Find the optimizer's state: the client's own, or the worker's if the optimizer is stateless. */
static fed_status find_state(sim_client *client, const fed_optimizer *optimizer, size_t trained,
                             float **state, fed_error *err) {
    const size_t floats = fedtrain_optimizer_state_size(optimizer, trained);
    sim_worker *worker = client->worker;
    if (!optimizer->stateless) {
        return sim_stores_optimizer(client->clients->stores, client->k, floats, state, err);
    }
    if (floats > worker->state_floats) {
        free(worker->state);
        worker->state = malloc(floats * sizeof *worker->state);
        worker->state_floats = worker->state != NULL ? floats : 0;
        FED_REQUIRE(worker->state != NULL, FED_ENOMEM);
    }
    *state = worker->state;
    return FED_OK;
}

/** Train with the simulator's own trainer. */
static fed_status train_here(sim_client *client, fedclient_round *round, uint64_t *cpu_us,
                             fed_error *err) {
    const fed_task *task = round->task;
    fedtrain_job job = {.net = client->worker->net,
                        .steps = task->local_steps,
                        .batch = task->batch,
                        .seed = task->seed,
                        .client = client->k,
                        .round = round->round + client->kept.again * FEDTRAIN_AGAIN};
    fedtrain_job_use(&job, &client->clients->train, &client->share);
    FED_TRY(fed_optimizer_parse(task->optimizer, task->learning_rate, &job.optimizer, err));
    float *state = NULL;
    FED_TRY(find_state(client, &job.optimizer, round->arch->trained, &state, err));
    if (job.optimizer.mask) {
        masking m = {&job.optimizer, state, round->arch->trained};
        FED_TRY(fedclient_round_sent(round, mask, &m, err));
    }
    FED_TRY(reckon_owed(&job.optimizer, round, 1, err));
    int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_run(&job, round->values, state, &round->loss, err));
    *cpu_us = (uint64_t)(fed_clock_thread_cpu_us() - before);
    return reckon_owed(&job.optimizer, round, -1, err);
}

/** Let another program train or measure. */
static fed_status ask_trainer(sim_client *client, fedclient_round *round, sim_trained *trained,
                              fed_error *err) {
    const sim_training training = {.client = client->k, .again = client->kept.again};
    FED_TRY(sim_trainer_ask(&client->worker->trainer, &training, round, &client->clients->stop,
                            trained, err));
    round->loss = isnan(trained->loss) ? FEDCLIENT_NO_LOSS : trained->loss;
    return FED_OK;
}

static fed_status train_elsewhere(sim_client *client, fedclient_round *round, uint64_t *cpu_us,
                                  fed_error *err) {
    sim_trained trained = {0};
    FED_TRY(ask_trainer(client, round, &trained, err));
    client->share.size = trained.samples;
    *cpu_us = trained.cpu_us;
    return FED_OK;
}

/** The random bytes by which a private update is rounded follow from the seed, so a run can be
 * repeated. A client that trains again in a round has other ones. */
static void begin_rounding(sim_client *client) {
    const uint64_t seed =
        client->clients->options->seed + ((uint64_t)client->kept.again << SEED_BITS);
    fed_rng_init(&client->rounding, seed, client->k, SIM_STREAM_ROUNDING + client->kept.round);
}

static fed_status train(sim_client *client, fedclient_round *round, fed_error *err) {
    const fed_task *task = round->task;
    sim_clients *clients = client->clients;
    client->kept.again = round->round == client->kept.round ? client->kept.again + 1 : 0;
    client->kept.round = round->round;
    begin_rounding(client);
    const sim_virtual_time *time = clients->virtual_time;
    const uint64_t samples = (uint64_t)task->local_steps * task->batch;
    const int64_t takes_us = time != NULL ? time->trains(time->user, client->k, samples) : 0;
    uint64_t used = 0;
    FED_TRY(sim_has_trainers(clients->options) ? train_elsewhere(client, round, &used, err)
                                               : train_here(client, round, &used, err));
    spoil(client, round);
    round->samples = (uint32_t)client->share.size;

    pthread_mutex_lock(&clients->mutex);
    client->kept.train_cpu_us += used;
    client->kept.busy_us += time != NULL ? takes_us : (int64_t)used;
    client->kept.local_steps = task->local_steps;
    clients->kept.parameters = round->arch->trained;
    if (time == NULL && round->round > clients->kept.round) {
        clients->kept.round = round->round;
        clients->kept.reported = 0;
        pthread_cond_broadcast(&clients->changed);
    }
    pthread_mutex_unlock(&clients->mutex);
    return FED_OK;
}

/** Take the task's holdout out of the client's shard, once. */
static fed_status hold(sim_client *client, const fed_task *task, fed_error *err) {
    if (!client->holds) {
        FED_TRY(fedtrain_share_hold(&client->share, (double)task->holdout, task->seed,
                                    &client->held, err));
        client->holds = true;
    }
    return FED_OK;
}

static double accuracy_of(const fedtrain_score *score) {
    return (double)score->correct / (double)score->samples;
}

/** Train the client's own copy, and note how good it and the shared model are for this client. */
static fed_status train_personal(sim_client *client, fedclient_round *round, fed_error *err) {
    const fed_task *task = round->task;
    sim_clients *clients = client->clients;
    const sim_virtual_time *time = clients->virtual_time;
    const uint64_t samples = (uint64_t)task->local_steps * task->batch;
    fedtrain_personal made;
    fedtrain_job job = {.net = client->worker->net,
                        .steps = task->local_steps,
                        .batch = task->batch,
                        .seed = task->seed,
                        .client = client->k,
                        .round = round->round};
    fedtrain_job_use(&job, &clients->train, &client->share);
    FED_TRY(fed_optimizer_parse(task->optimizer, task->learning_rate, &job.optimizer, err));
    const int64_t takes_us = time != NULL ? time->trains(time->user, client->k, samples) : 0;
    const int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_personal_run(&job, &clients->train, &client->held, evaluate_batch(round),
                                  round->values, &made, err));
    const uint64_t used = (uint64_t)(fed_clock_thread_cpu_us() - before);
    round->samples = (uint32_t)client->share.size;
    round->loss = made.loss;
    pthread_mutex_lock(&clients->mutex);
    client->kept.train_cpu_us += used;
    client->kept.busy_us += time != NULL ? takes_us : (int64_t)used;
    client->kept.held = round->arch->loss == FED_LOSS_SQUARED ? 0 : made.after.samples;
    if (client->kept.held > 0) {
        client->kept.shared = accuracy_of(&made.before);
        client->kept.personal = accuracy_of(&made.after);
    }
    pthread_mutex_unlock(&clients->mutex);
    return FED_OK;
}

static fed_status measure_here(const sim_client *client, fedclient_round *round,
                               sim_trained *measured, fed_error *err) {
    fedtrain_score score = {0};
    const int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_data_score(client->worker->net, evaluate_batch(round), &client->clients->test,
                                round->values, &score, err));
    round->loss = score.loss;
    *measured = (sim_trained){
        .samples = (uint32_t)score.samples,
        .correct = round->arch->loss == FED_LOSS_SQUARED ? SIM_NO_CORRECT : (uint32_t)score.correct,
        .cpu_us = (uint64_t)(fed_clock_thread_cpu_us() - before)};
    return FED_OK;
}

/** Note how good a model is on what one client holds back. */
static void note_held(sim_client *client, const fedclient_round *round,
                      const fedtrain_score *score) {
    client->kept.held = score->samples;
    client->kept.shared = accuracy_of(score);
    client->kept.personal = round->task->personal_steps > 0 ? client->kept.personal : (double)NAN;
}

/** Measure the model on what each client holds back; *measured is about all these samples. */
static fed_status measure_clients(const sim_client *evaluator, fedclient_round *round,
                                  sim_trained *measured, fed_error *err) {
    sim_clients *clients = evaluator->clients;
    const bool numbers = round->arch->loss == FED_LOSS_SQUARED;
    const int64_t before = fed_clock_thread_cpu_us();
    uint64_t samples = 0, correct = 0;
    double loss = 0;
    for (uint32_t k = 0; k < clients->options->clients; k++) {
        sim_client *client = &clients->client[k];
        fedtrain_score score = {0};
        FED_TRY(fedtrain_share_score(evaluator->worker->net, evaluate_batch(round), &clients->train,
                                     &client->held, round->values, &score, err));
        samples += score.samples;
        correct += score.correct;
        loss += (double)score.loss * (double)score.samples;
        if (score.samples > 0 && !numbers) {
            pthread_mutex_lock(&clients->mutex);
            note_held(client, round, &score);
            pthread_mutex_unlock(&clients->mutex);
        }
    }
    if (samples == 0) {
        return fed_fail(err, FED_EINVAL,
                        "no client has samples to hold back: choose fewer clients, or leave "
                        "evaluate=clients out");
    }
    round->loss = (float)(loss / (double)samples);
    *measured = (sim_trained){.samples = (uint32_t)samples,
                              .correct = numbers ? SIM_NO_CORRECT : (uint32_t)correct,
                              .cpu_us = (uint64_t)(fed_clock_thread_cpu_us() - before)};
    return FED_OK;
}

static fed_status measure(sim_client *client, fedclient_round *round, sim_trained *measured,
                          fed_error *err) {
    const sim_options *o = client->clients->options;
    return sim_has_trainers(o)       ? ask_trainer(client, round, measured, err)
           : sim_measures_clients(o) ? measure_clients(client, round, measured, err)
                                     : measure_here(client, round, measured, err);
}

static fed_status evaluate(sim_client *client, fedclient_round *round, fed_error *err) {
    sim_clients *clients = client->clients;
    sim_trained measured = {0};
    const sim_virtual_time *time = clients->virtual_time;
    if (time != NULL) {
        time->measures(time->user, client->k, round->version);
    }
    FED_TRY(measure(client, round, &measured, err));
    const bool counts = measured.correct != SIM_NO_CORRECT;
    round->samples = measured.samples;
    round->correct = counts ? measured.correct : FEDCLIENT_NO_CORRECT;
    clients->kept.evaluate_cpu_us += measured.cpu_us;
    const double accuracy = counts ? (double)measured.correct / measured.samples : (double)NAN;
    const double loss = round->loss > FEDCLIENT_NO_LOSS ? (double)round->loss : (double)NAN;
    pthread_mutex_lock(&clients->mutex);
    fed_status status = sim_note_measured(clients, round->version, accuracy, loss);
    pthread_mutex_unlock(&clients->mutex);
    return status;
}

static bool has_private(const fed_checkpoint *file, const fedclient_round *round) {
    bool found = false;
    for (size_t k = 0; k < round->arch->layout.count && !found; k++) {
        found = fedclient_round_stays(round, k) &&
                fed_checkpoint_find(file, round->arch->layout.tensors[k].name) != NULL;
    }
    return found;
}

static fed_status copy_private(const fed_checkpoint *file, const fedclient_round *round,
                               fed_error *err) {
    const fed_layout *layout = &round->arch->layout;
    float *all = malloc(layout->size * sizeof *all + 1);
    FED_REQUIRE(all != NULL, FED_ENOMEM);
    const fed_status status = fed_checkpoint_read(file, layout, all, err);
    for (size_t k = 0; status == FED_OK && k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        if (fedclient_round_stays(round, k)) {
            memcpy(round->values + t->offset, all + t->offset, t->size * sizeof *all);
        }
    }
    free(all);
    return status;
}

/** A client's private layers begin as in the run's file `initial`, if that has them. */
static fed_status begin_own(const sim_client *client, const fedclient_round *round,
                            fed_error *err) {
    fed_checkpoint *file = NULL;
    if (!round->own_is_new || client->clients->initial == NULL) {
        return FED_OK;
    }
    FED_TRY(fed_checkpoint_open(client->clients->initial, &file, err));
    const fed_status status = has_private(file, round) ? copy_private(file, round, err) : FED_OK;
    fed_checkpoint_close(file);
    return status;
}

static fed_status work(void *user, fedclient_round *round, fed_error *err) {
    sim_client *client = user;
    sim_client_take_part(client);
    FED_TRY(begin_own(client, round, err));
    if (!sim_has_trainers(client->clients->options)) {
        FED_TRY(fit_worker(client, round, err));
    }
    if (client->evaluates) {
        return evaluate(client, round, err);
    }
    if (sim_has_trainers(client->clients->options)) {
        return round->is_personal
                   ? fed_fail(err, FED_EDECLINED, "a trainer of your own makes no personal model")
                   : train(client, round, err);
    }
    FED_TRY(hold(client, round->task, err));
    return round->is_personal ? train_personal(client, round, err) : train(client, round, err);
}

static fed_status fill_rounding(void *user, void *dst, size_t len) {
    sim_client *client = user;
    uint8_t *at = dst;
    for (size_t i = 0; i < len; i += sizeof(uint32_t)) {
        const uint32_t drawn = fed_rng_u32(&client->rounding);
        for (size_t b = 0; b < sizeof drawn && i + b < len; b++) {
            at[i + b] = (uint8_t)(drawn >> (8 * b));
        }
    }
    return FED_OK;
}

fedclient_options sim_client_options(sim_client *client) {
    return (fedclient_options){.server = client->clients->server,
                               .platform = &client->platform,
                               .transport = &client->transport,
                               .role = client->evaluates ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
                               .hold_ms = HOLD_MS,
                               .whole_bytes = UINT32_MAX, /* pieces only after failures */
                               .rounding = fill_rounding,
                               .train = work,
                               .user = client};
}
