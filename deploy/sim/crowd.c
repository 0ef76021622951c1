/* The clients of a simulation: one thread each, every one a whole libfedclient of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deploy/sim/sim.h"
#include "fed/clock.h"
#include "fed/hash.h"

enum { STACK_BYTES = 512 * 1024, HOLD_MS = 20000, EVALUATE_BATCH = 100, BATCH_LIMIT = 4096 };
enum { ENROL_TRIES = 100, ENROL_PAUSE_MS = 300 };

/* --- The training callback --- */

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

static fed_status fit_optimizer(sim_client *client, const fed_optimizer *optimizer, size_t n) {
    size_t size = fedtrain_optimizer_state_size(optimizer, n);
    if (size == client->optimizer_size) {
        return FED_OK;
    }
    free(client->optimizer);
    /* Not calloc: pages that are read before they are written are mapped twice, and hundreds of
     * threads pay for it with a flush on every core. */
    size_t bytes = (size * sizeof *client->optimizer + 63) / 64 * 64;
    client->optimizer = aligned_alloc(64, bytes);
    client->optimizer_size = client->optimizer != NULL ? size : 0;
    FED_REQUIRE(client->optimizer != NULL, FED_ENOMEM);
    memset(client->optimizer, 0, bytes);
    return FED_OK;
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
    FED_TRY(fit_optimizer(client, &job.optimizer, round->arch->trained));
    if (job.optimizer.mask) {
        masking m = {&job.optimizer, client->optimizer, round->arch->trained};
        FED_TRY(fedclient_round_sent(round, mask, &m, err));
    }
    int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_run(&job, round->values, client->optimizer, &round->loss, err));
    int64_t used = fed_clock_thread_cpu_us() - before;
    spoil(client, round);
    round->samples = (uint32_t)client->share.size;

    sim_crowd *crowd = client->crowd;
    pthread_mutex_lock(&crowd->mutex);
    client->train_cpu_us += (uint64_t)used;
    crowd->task = *task;
    crowd->parameters = round->arch->trained;
    if (round->round > crowd->round) {
        crowd->round = round->round;
        crowd->reported = 0;
        pthread_cond_broadcast(&crowd->changed);
    }
    pthread_mutex_unlock(&crowd->mutex);
    return FED_OK;
}

static fed_status evaluate(sim_client *client, fedclient_round *round, fed_error *err) {
    fedtrain_score score = {0};
    int64_t before = fed_clock_thread_cpu_us();
    FED_TRY(fedtrain_data_score(client->place->net, evaluate_batch(round), &client->crowd->test,
                                round->values, &score, err));
    round->samples = (uint32_t)score.samples;
    round->correct = (uint32_t)score.correct;
    round->loss = score.loss;
    client->crowd->evaluate_cpu_us += (uint64_t)(fed_clock_thread_cpu_us() - before);
    return FED_OK;
}

/** From now on the run waits for this client's end. */
static void take_up(sim_client *client) {
    pthread_mutex_lock(&client->crowd->mutex);
    client->crowd->running += client->takes_part ? 0U : 1U;
    client->takes_part = true;
    pthread_mutex_unlock(&client->crowd->mutex);
}

static fed_status work(void *user, fedclient_round *round, fed_error *err) {
    sim_client *client = user;
    take_up(client);
    FED_TRY(fit_place(client->place, round, err));
    return client->evaluates ? evaluate(client, round, err) : train(client, round, err);
}

/* --- A client's life --- */

void sim_place_hand_out(sim_crowd *crowd) {
    while (crowd->places != NULL && crowd->waiting_count > 0 && !crowd->kill_due) {
        uint32_t next = fed_rng_below(&crowd->dice, (uint32_t)crowd->waiting_count);
        sim_client *client = crowd->waiting[next];
        crowd->waiting[next] = crowd->waiting[--crowd->waiting_count];
        client->place = crowd->places;
        crowd->places = client->place->next;
        pthread_cond_signal(&client->turn);
    }
}

void sim_place_take(sim_client *client) {
    sim_crowd *crowd = client->crowd;
    pthread_mutex_lock(&crowd->mutex);
    crowd->waiting[crowd->waiting_count++] = client;
    sim_place_hand_out(crowd);
    while (client->place == NULL) {
        pthread_cond_wait(&client->turn, &crowd->mutex);
    }
    pthread_mutex_unlock(&crowd->mutex);
}

void sim_place_give_back(sim_client *client) {
    if (client->place == NULL) {
        return;
    }
    sim_crowd *crowd = client->crowd;
    pthread_mutex_lock(&crowd->mutex);
    client->place->next = crowd->places;
    crowd->places = client->place;
    client->place = NULL;
    sim_place_hand_out(crowd);
    pthread_mutex_unlock(&crowd->mutex);
}

static struct timespec after_ms(uint32_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    return until;
}

/** Sleep, but wake up when the run stops. */
static void pause_for(sim_crowd *crowd, uint32_t ms) {
    struct timespec until = after_ms(ms);
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->stop == 0 &&
           pthread_cond_timedwait(&crowd->changed, &crowd->mutex, &until) == 0) {
    }
    pthread_mutex_unlock(&crowd->mutex);
}

void sim_crowd_wait(sim_crowd *crowd, uint32_t ms) {
    struct timespec until = after_ms(ms);
    pthread_mutex_lock(&crowd->mutex);
    if (!crowd->kill_due) {
        (void)pthread_cond_timedwait(&crowd->changed, &crowd->mutex, &until);
    }
    pthread_mutex_unlock(&crowd->mutex);
}

/** Stay away, line closed, from every round that the schedule says so. */
static void stay_away(sim_client *client, uint32_t last_counted) {
    sim_crowd *crowd = client->crowd;
    const sim_options *options = crowd->options;
    bool was_here = true;
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->stop == 0 && !crowd->finished) {
        uint32_t next = crowd->round > last_counted ? crowd->round : last_counted + 1;
        if (!sim_away(options->seed, next, options->clients, options->offline, client->k)) {
            break;
        }
        if (was_here) {
            was_here = false;
            client->transport.disconnect(client->transport.user);
        }
        while (crowd->stop == 0 && !crowd->finished && crowd->round <= next) {
            pthread_cond_wait(&crowd->changed, &crowd->mutex);
        }
    }
    pthread_mutex_unlock(&crowd->mutex);
}

/** The log's row of a round. NULL: no memory for it. Under the mutex. */
static sim_round *row_of(sim_crowd *crowd, uint32_t round) {
    sim_log *log = crowd->log;
    while (log->round_count < round) {
        sim_round *fresh = NULL;
        if (sim_log_add(log, &fresh) != FED_OK) {
            return NULL;
        }
        fresh->round = (uint32_t)log->round_count;
    }
    return &log->rounds[round - 1];
}

/** What the client has moved since it was last asked is the round's. */
static void charge(sim_client *client, sim_round *row) {
    fedclient_traffic now;
    client->transport.traffic(client->transport.user, &now);
    row->up_bytes += now.sent_bytes - client->charged.sent_bytes;
    row->down_bytes += now.received_bytes - client->charged.received_bytes;
    client->charged = now;
}

static void note_counted(sim_client *client, sim_round *row) {
    sim_crowd *crowd = client->crowd;
    client->counted++;
    row->counted++;
    sim_log_attend(crowd->log, row->round - 1, client->k);
    crowd->reported += row->round == crowd->round ? 1U : 0U;
    if (row->round == crowd->options->kill_round && !crowd->kill_done) {
        crowd->kill_due = true;
        pthread_cond_broadcast(&crowd->changed);
    }
}

static fed_status note_event(sim_client *client, const fedclient_event *event) {
    sim_crowd *crowd = client->crowd;
    uint32_t round = client->evaluates   ? event->version
                     : event->round != 0 ? event->round
                                         : crowd->round;
    sim_round *row = round != 0 ? row_of(crowd, round) : NULL;
    FED_REQUIRE(round == 0 || row != NULL, FED_ENOMEM);
    if (row != NULL && !client->evaluates) {
        charge(client, row);
    }
    switch (event->outcome) {
    case FEDCLIENT_COUNTED:
        note_counted(client, row);
        break;
    case FEDCLIENT_REFUSED:
        client->refused++;
        row->refused++;
        break;
    case FEDCLIENT_EVALUATED:
        crowd->evaluated = event->version;
        crowd->accuracy = (double)event->correct / (double)event->samples;
        if (row != NULL) { /* not the model before the first round */
            row->accuracy = crowd->accuracy;
            row->test_loss = (double)event->loss;
        }
        break;
    case FEDCLIENT_FINISHED:
        crowd->finished = true;
        crowd->version = event->version;
        pthread_cond_broadcast(&crowd->changed);
        break;
    case FEDCLIENT_WAITED: /* who has the last model already hears of the end like this */
    case FEDCLIENT_RETRY:
        break;
    }
    return FED_OK;
}

static fed_status take_part(sim_client *client, fedclient *fed, fed_error *err) {
    uint32_t last_counted = 0;
    while (client->crowd->stop == 0) {
        if (!client->evaluates) {
            stay_away(client, last_counted);
        }
        fedclient_event event = {0};
        fed_status status = fedclient_step(fed, &event, err);
        sim_place_give_back(client);
        FED_TRY(status);
        pthread_mutex_lock(&client->crowd->mutex);
        status = note_event(client, &event);
        pthread_mutex_unlock(&client->crowd->mutex);
        FED_TRY(status);
        if (event.outcome == FEDCLIENT_FINISHED ||
            (event.outcome == FEDCLIENT_WAITED && event.reason == FED_WAIT_FINISHED)) {
            client->finished = true;
            break;
        }
        if (event.outcome == FEDCLIENT_COUNTED) {
            last_counted = event.round;
        }
        if (event.wait_ms > 0) {
            pause_for(client->crowd, event.wait_ms);
        }
    }
    return FED_OK;
}

static fed_status digest_model(sim_client *client, fedclient *fed, fed_error *err) {
    uint64_t task = 0;
    uint32_t version = 0;
    float *values = NULL;
    size_t count = 0;
    FED_TRY(fedclient_model(fed, &task, &version, &values, &count, err));
    client->digest = fed_digest(values, count);
    free(values);
    return FED_OK;
}

/** A few at a time: hundreds of handshakes at once on the cores of one machine would all take as
 * long as all of them together, and none may take half a minute. */
static fed_status enrol_once(sim_client *client, fedclient *fed, const char *token,
                             fed_error *err) {
    sim_place_take(client);
    fed_status status = fedclient_enrol(fed, token, err);
    sim_place_give_back(client);
    return status;
}

/** The coordinator may be killed just then. */
static fed_status enrol(sim_client *client, fedclient *fed, const char *token, fed_error *err) {
    fed_status status = enrol_once(client, fed, token, err);
    for (int tries = 0; tries < ENROL_TRIES && client->crowd->stop == 0 &&
                        (status == FED_ENET || status == FED_ETIMEOUT);
         tries++) {
        pause_for(client->crowd, ENROL_PAUSE_MS);
        status = enrol_once(client, fed, token, err);
    }
    return status;
}

static fed_status live(sim_client *client, const char *token, fed_error *err) {
    FED_TRY(fedclient_transport_curl_open(client->crowd->coordinator->ca.text, &client->line.inner,
                                          err));
    sim_line_open(&client->line, client, &client->transport);
    fedclient_options options = {.server = client->crowd->server,
                                 .platform = &client->platform,
                                 .transport = &client->transport,
                                 .role = client->evaluates ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
                                 .hold_ms = HOLD_MS,
                                 .train = work,
                                 .user = client};
    fedclient *fed = NULL;
    fed_status status = fedclient_open(&options, &fed, err);
    if (status == FED_OK) {
        status = enrol(client, fed, token, err);
    }
    client->transport.traffic(client->transport.user, &client->enrolment);
    client->charged = client->enrolment;
    if (status == FED_OK) {
        status = take_part(client, fed, err);
    }
    if (status == FED_OK && client->finished) {
        status = digest_model(client, fed, err);
    }
    client->transport.traffic(client->transport.user, &client->traffic);
    fedclient_close(fed);
    fedclient_transport_curl_close(&client->line.inner);
    return status;
}

/** What a thread is started with. */
typedef struct birth {
    sim_client *client;
    char token[FEDSERVER_TOKEN];
} birth;

static void *client_main(void *argument) {
    birth born = *(birth *)argument;
    free(argument);
    sim_client *client = born.client;
    sim_crowd *crowd = client->crowd;
    fed_error err = {0};
    fed_status status = live(client, born.token, &err);
    pthread_mutex_lock(&crowd->mutex);
    if (status != FED_OK && crowd->stop == 0) {
        client->error = err;
        client->error.status = status;
        crowd->failed++;
    }
    crowd->running -= client->takes_part ? 1U : 0U;
    pthread_cond_broadcast(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
    return NULL;
}

/* --- All of them --- */

static fed_status open_places(sim_crowd *crowd) {
    crowd->all_places = calloc(crowd->options->threads, sizeof *crowd->all_places);
    FED_REQUIRE(crowd->all_places != NULL, FED_ENOMEM);
    for (uint32_t i = 0; i < crowd->options->threads; i++) {
        crowd->all_places[i].next = crowd->places;
        crowd->places = &crowd->all_places[i];
    }
    return FED_OK;
}

static fed_status open_client(sim_crowd *crowd, uint32_t k, fed_error *err) {
    sim_client *client = &crowd->client[k];
    client->crowd = crowd;
    client->k = k;
    client->evaluates = k == crowd->options->clients;
    pthread_cond_init(&client->turn, NULL);
    FED_TRY(fedclient_platform_memory_open(&client->platform, err));
    if (client->evaluates) {
        take_up(client);
        return FED_OK;
    }
    return FED_OK;
}

static fed_status deal_out(sim_crowd *crowd, fed_error *err) {
    const sim_options *o = crowd->options;
    fedtrain_partition partition;
    FED_TRY(fedtrain_data_split(&crowd->train, o->split, o->clients, o->seed, &partition, err));
    fed_status status = FED_OK;
    for (uint32_t k = 0; k < o->clients && status == FED_OK; k++) {
        status = fedtrain_share_take(&crowd->train, &partition, k, &crowd->client[k].share, err);
    }
    fedtrain_partition_free(&partition);
    return status;
}

fed_status sim_crowd_open(sim_crowd *crowd, const sim_options *options,
                          const sim_coordinator *coordinator, sim_log *log, fed_error *err) {
    *crowd = (sim_crowd){.options = options, .coordinator = coordinator, .log = log};
    pthread_mutex_init(&crowd->mutex, NULL);
    pthread_cond_init(&crowd->changed, NULL);
    const char *name = options->dataset, *directory = options->data;
    FED_TRY(fedtrain_data_open(name, directory, "train", "train", &crowd->train, err));
    FED_TRY(fedtrain_data_open(name, directory, "test", "train", &crowd->test, err));
    FED_TRY(open_places(crowd));
    crowd->client = calloc(options->clients + 1U, sizeof *crowd->client);
    crowd->waiting = calloc(options->clients + 1U, sizeof(sim_client *));
    FED_REQUIRE(crowd->client != NULL && crowd->waiting != NULL, FED_ENOMEM);
    fed_rng_init(&crowd->dice, options->seed, 0, 0);
    for (uint32_t k = 0; k <= options->clients; k++) {
        FED_TRY(open_client(crowd, k, err));
        crowd->client_count++;
    }
    return deal_out(crowd, err);
}

static fed_status start_client(sim_client *client, const char *token, fed_error *err) {
    birth *born = malloc(sizeof *born);
    FED_REQUIRE(born != NULL, FED_ENOMEM);
    born->client = client;
    memcpy(born->token, token, FEDSERVER_TOKEN);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_mutex_lock(&client->crowd->mutex);
    int failed = pthread_create(&client->thread, &attributes, client_main, born);
    client->started = failed == 0;
    pthread_mutex_unlock(&client->crowd->mutex);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        free(born);
        return fed_fail(err, FED_ENOMEM,
                        "can't start a thread for client %u: %s; use fewer clients", client->k,
                        strerror(failed));
    }
    return FED_OK;
}

fed_status sim_crowd_start(sim_crowd *crowd, char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    snprintf(crowd->server, sizeof crowd->server, "https://127.0.0.1:%u",
             crowd->coordinator->front_port);
    for (size_t k = 0; k < crowd->client_count; k++) {
        FED_TRY(start_client(&crowd->client[k], token[k], err));
    }
    return FED_OK;
}

void sim_crowd_stop(sim_crowd *crowd) {
    pthread_mutex_lock(&crowd->mutex);
    crowd->stop = 1;
    pthread_cond_broadcast(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
}

void sim_crowd_join(sim_crowd *crowd) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        if (crowd->client[k].started) {
            pthread_join(crowd->client[k].thread, NULL);
            crowd->client[k].started = false;
        }
    }
}

void sim_crowd_close(sim_crowd *crowd) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        fedclient_platform_memory_close(&crowd->client[k].platform);
        free(crowd->client[k].optimizer);
        fedtrain_share_free(&crowd->client[k].share);
        pthread_cond_destroy(&crowd->client[k].turn);
    }
    for (uint32_t i = 0; crowd->all_places != NULL && i < crowd->options->threads; i++) {
        fedtrain_net_free(crowd->all_places[i].net);
        fed_arch_free(&crowd->all_places[i].arch);
    }
    free(crowd->client);
    free(crowd->waiting);
    free(crowd->all_places);
    fedtrain_data_free(&crowd->train);
    fedtrain_data_free(&crowd->test);
    pthread_cond_destroy(&crowd->changed);
    pthread_mutex_destroy(&crowd->mutex);
}
