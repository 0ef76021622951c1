/* What a client is asked to do: it trains on its share of the data, or measures a model. */
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/crowd/sim.h"
#include "deploy/sim/virtual/inproc.h"
#include "fed/clock.h"

enum { EVALUATE_BATCH = 100, BATCH_LIMIT = 4096 };

/** At least the task's. A language model's scores alone take 1.4 MB a sample: it gets no more. */
static size_t evaluate_batch(const fedclient_round *round) {
    size_t batch = round->task->batch;
    return batch < EVALUATE_BATCH && round->arch->words == 0 ? EVALUATE_BATCH : batch;
}

/** The place's net must be the task's, and large enough; the first turn after a change makes it. */
static fed_status fit_place(sim_place *place, const fedclient_round *round, fed_error *err) {
    size_t batch = evaluate_batch(round);
    if (place->arch.text != NULL && strcmp(place->arch.text, round->arch->text) == 0 &&
        batch <= place->batch) {
        return FED_OK;
    }
    if (batch > BATCH_LIMIT) {
        return fed_fail(err, FED_ERANGE, "batch %zu is over this simulator's %d", batch,
                        BATCH_LIMIT);
    }
    fedtrain_net_free(place->net);
    fed_arch_free(&place->arch);
    place->net = NULL;
    place->batch = batch;
    FED_TRY(fed_arch_parse(round->arch->text, &place->arch, err));
    fed_status status = fedtrain_net_new(&place->arch, batch, FEDTRAIN_FAST, &place->net);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "can't make a net");
}

/** The first clients are the hostile ones: what they send is noise, within +-8. */
static void spoil(const sim_client *client, const fedclient_round *round) {
    const sim_options *o = client->crowd->options;
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

/** What the optimizer remembers is the client's; where it forgets all of it between rounds, one at
 * a place will do. */
static fed_status find_state(sim_client *client, const fed_optimizer *optimizer, size_t trained,
                             float **state, fed_error *err) {
    const size_t floats = fedtrain_optimizer_state_size(optimizer, trained);
    sim_place *place = client->place;
    if (!optimizer->stateless) {
        return sim_flash_optimizer(client->crowd->flash, client->k, floats, state, err);
    }
    if (floats > place->state_floats) {
        free(place->state);
        place->state = malloc(floats * sizeof *place->state);
        place->state_floats = place->state != NULL ? floats : 0;
        FED_REQUIRE(place->state != NULL, FED_ENOMEM);
    }
    *state = place->state;
    return FED_OK;
}

static fed_status train(sim_client *client, fedclient_round *round, fed_error *err) {
    const fed_task *task = round->task;
    client->again = round->round == client->round ? client->again + 1 : 0;
    client->round = round->round;
    fedtrain_job job = {.net = client->place->net,
                        .steps = task->local_steps,
                        .batch = task->batch,
                        .seed = task->seed,
                        .client = client->k,
                        .round = round->round + client->again * FEDTRAIN_AGAIN};
    fedtrain_job_use(&job, &client->crowd->train, &client->share);
    FED_TRY(fed_optimizer_parse(task->optimizer, task->learning_rate, &job.optimizer, err));
    sim_crowd *crowd = client->crowd;
    float *state = NULL;
    FED_TRY(find_state(client, &job.optimizer, round->arch->trained, &state, err));
    if (job.optimizer.mask) {
        masking m = {&job.optimizer, state, round->arch->trained};
        FED_TRY(fedclient_round_sent(round, mask, &m, err));
    }
    int64_t takes_us = crowd->inproc == NULL
                           ? 0
                           : sim_inproc_trains(client, (uint64_t)task->local_steps * task->batch);
    int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_run(&job, round->values, state, &round->loss, err));
    int64_t used = fed_clock_thread_cpu_us() - before;
    spoil(client, round);
    round->samples = (uint32_t)client->share.size;

    pthread_mutex_lock(&crowd->mutex);
    client->train_cpu_us += (uint64_t)used;
    client->busy_us += crowd->inproc != NULL ? takes_us : used;
    client->local_steps = task->local_steps;
    crowd->parameters = round->arch->trained;
    if (crowd->inproc == NULL && round->round > crowd->round) {
        crowd->round = round->round;
        crowd->reported = 0;
        pthread_cond_broadcast(&crowd->changed);
    }
    pthread_mutex_unlock(&crowd->mutex);
    return FED_OK;
}

static fed_status evaluate(sim_client *client, fedclient_round *round, fed_error *err) {
    sim_crowd *crowd = client->crowd;
    fedtrain_score score = {0};
    if (crowd->inproc != NULL) {
        sim_inproc_measures(client, round->version);
    }
    int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_data_score(client->place->net, evaluate_batch(round), &crowd->test,
                                round->values, &score, err));
    round->samples = (uint32_t)score.samples;
    round->correct = (uint32_t)score.correct;
    round->loss = score.loss;
    crowd->evaluate_cpu_us += (uint64_t)(fed_clock_thread_cpu_us() - before);
    pthread_mutex_lock(&crowd->mutex);
    fed_status status = sim_note_measured(crowd, round->version, round);
    pthread_mutex_unlock(&crowd->mutex);
    return status;
}

bool sim_wants_measured(const sim_options *options, uint32_t version) {
    return version % options->evaluate_every == 0;
}

void sim_take_up(sim_client *client) {
    pthread_mutex_lock(&client->crowd->mutex);
    client->crowd->running += client->takes_part ? 0U : 1U;
    client->takes_part = true;
    pthread_mutex_unlock(&client->crowd->mutex);
}

fed_status sim_work(void *user, fedclient_round *round, fed_error *err) {
    sim_client *client = user;
    sim_take_up(client);
    FED_TRY(fit_place(client->place, round, err));
    return client->evaluates ? evaluate(client, round, err) : train(client, round, err);
}
