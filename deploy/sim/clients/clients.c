/* The clients of a run: opened with their data and the workers, closed at the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/clients/clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "deploy/sim/conditions/away.h"
#include "fed/clock.h"
#include "fed/hash.h"
#include "fed/threads.h"

/* The number of the stream of random numbers that only swapped labels use. */
static const uint32_t SWAP_STREAM = 0x73776170; /* "swap" */

static fed_status open_workers(sim_clients *clients, fed_error *err) {
    clients->workers = calloc(clients->options->threads, sizeof *clients->workers);
    int sockets[SIM_TRAINERS_MOST] = {0};
    uint32_t trainers = 0;
    FED_REQUIRE(clients->workers != NULL, FED_ENOMEM);
    if (sim_has_trainers(clients->options)) {
        FED_TRY(sim_trainers_read(clients->options->trainers, sockets, &trainers, err));
        if (trainers != clients->options->threads) {
            return fed_fail(err, FED_EINVAL,
                            "trainers=%.60s names %u sockets, but %u steps are to run at a time; "
                            "give a socket for each",
                            clients->options->trainers, trainers, clients->options->threads);
        }
    }
    for (uint32_t i = 0; i < clients->options->threads; i++) {
        clients->workers[i].trainer.socket = i < trainers ? sockets[i] : -1;
        clients->workers[i].next = clients->free_workers;
        clients->free_workers = &clients->workers[i];
    }
    return FED_OK;
}

static void open_client(sim_clients *clients, uint32_t k) {
    const sim_options *o = clients->options;
    sim_client *client = &clients->client[k];
    client->clients = clients;
    client->k = k;
    client->evaluates = k == o->clients;
    client->lossy = (sim_lossy){.seed = o->seed, .k = k, .rate = o->broken};
    pthread_cond_init(&client->worker_ready, NULL);
    sim_stores_platform(clients->stores, k, &client->platform);
    /* a coordinator of one's own may measure by its own means, and each client waits for its end */
    if (client->evaluates != sim_is_foreign(o)) {
        sim_client_take_part(client);
    }
}

static fed_status normalise(sim_clients *clients, fed_error *err) {
    fedtrain_dataset *train = &clients->train.set, *test = &clients->test.set;
    if (clients->train.is_text) {
        return fed_fail(
            err, FED_EINVAL,
            "normalise=1 is for numbers: a text has none; set normalise=0 for this data set");
    }
    FED_TRY(fedtrain_dataset_normalise_by(test, train, NULL, train->count));
    return fedtrain_dataset_normalise_by(train, train, NULL, train->count);
}

/** For one client two classes, drawn among those that it has, change places in what it holds: it
 * names them the other way round. No other client has these samples. */
static fed_status swap_labels(sim_clients *clients, uint32_t k, fed_error *err) {
    const fedtrain_shard *shard = &clients->client[k].share.shard;
    uint8_t *label = clients->train.set.label;
    uint32_t has[FEDTRAIN_CLASSES] = {0}, kind[FEDTRAIN_CLASSES], kinds = 0;
    fed_rng rng;
    if (clients->train.is_text || label == NULL) {
        return fed_fail(err, FED_EINVAL, "swapped is for samples with classes: leave the key out");
    }
    for (size_t i = 0; i < shard->count; i++) {
        has[label[shard->index[i]]]++;
    }
    for (uint32_t c = 0; c < FEDTRAIN_CLASSES; c++) {
        if (has[c] > 0) {
            kind[kinds++] = c;
        }
    }
    if (kinds < 2) {
        return FED_OK;
    }
    fed_rng_init(&rng, clients->options->seed, k, SWAP_STREAM);
    fed_rng_shuffle(&rng, kind, kinds);
    for (size_t i = 0; i < shard->count; i++) {
        uint8_t *own = &label[shard->index[i]];
        *own = (uint8_t)(*own == kind[0] ? kind[1] : *own == kind[1] ? kind[0] : *own);
    }
    return FED_OK;
}

static fed_status open_shards(sim_clients *clients, fed_error *err) {
    const sim_options *o = clients->options;
    fedtrain_partition partition;
    FED_TRY(fedtrain_data_split(&clients->train, o->split, o->clients, o->seed, &partition, err));
    fed_status status = FED_OK;
    for (uint32_t k = 0; k < o->clients && status == FED_OK; k++) {
        status =
            fedtrain_share_take(&clients->train, &partition, k, &clients->client[k].share, err);
    }
    fedtrain_partition_free(&partition);
    for (uint32_t k = 0; status == FED_OK && k < (uint32_t)(o->swapped * (double)o->clients); k++) {
        status = swap_labels(clients, k, err);
    }
    return status;
}

static size_t system_number(const char *path, const char *word) {
    char line[128], *end = NULL;
    size_t number = SIZE_MAX;
    FILE *file = fopen(path, "r");
    while (file != NULL && number == SIZE_MAX && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, word, strlen(word)) == 0) {
            const size_t value = (size_t)strtoull(line + strlen(word), &end, 10);
            number = end != line + strlen(word) ? value : SIZE_MAX;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return number;
}

/** Bytes of plain memory for the clients' stores: half of the system's available memory, or of the
 * container's limit if that is less. */
static size_t memory_to_spare(void) {
    const size_t kilobytes = system_number("/proc/meminfo", "MemAvailable:");
    const size_t granted = system_number("/sys/fs/cgroup/memory.max", "");
    const size_t available = kilobytes > SIZE_MAX / 1024 ? 0 : kilobytes * 1024;
    return (available < granted ? available : granted) / 2;
}

static fed_status open_stores(sim_clients *clients, fed_error *err) {
    const sim_options *o = clients->options;
    char path[600];
    if (o->state != NULL) {
        sim_options_state_path(o, "clients", path, sizeof path);
    }
    return sim_stores_open(o->state != NULL ? path : NULL, o->clients + 1U, o->resume,
                           memory_to_spare(), &clients->stores, err);
}

static fed_status load_data(sim_clients *clients, const sim_options *options, fed_error *err) {
    const char *name = options->dataset, *directory = options->data;
    const char *part = options->train_part != NULL ? options->train_part : "train";
    FED_TRY(fedtrain_data_open(name, directory, part, part, &clients->train, err));
    FED_TRY(fedtrain_data_open(name, directory, "test", part, &clients->test, err));
    if (options->normalise) {
        FED_TRY(normalise(clients, err));
    }
    return FED_OK;
}

fed_status sim_clients_load(sim_clients *clients, const sim_options *options, sim_log *log,
                            fed_error *err) {
    *clients = (sim_clients){.options = options, .log = log};
    pthread_mutex_init(&clients->mutex, NULL);
    fed_cond_init(&clients->changed);
    if (!sim_has_trainers(options)) {
        FED_TRY(load_data(clients, options, err));
    }
    return open_workers(clients, err);
}

fed_status sim_clients_open(sim_clients *clients, fed_error *err) {
    const sim_options *o = clients->options;
    clients->client = calloc(o->clients + 1U, sizeof *clients->client);
    clients->waiting = calloc(o->clients + 1U, sizeof(sim_client *));
    clients->away = calloc(o->clients + 1U, sizeof *clients->away);
    FED_REQUIRE(clients->client != NULL && clients->waiting != NULL && clients->away != NULL,
                FED_ENOMEM);
    FED_TRY(open_stores(clients, err));
    fed_rng_init(&clients->rng, o->seed, 0, 0);
    for (uint32_t k = 0; k <= o->clients; k++) {
        open_client(clients, k);
        clients->client_count++;
    }
    return sim_has_trainers(o) ? FED_OK : open_shards(clients, err);
}

fed_status sim_clients_hold(sim_clients *clients, double fraction, uint64_t seed, fed_error *err) {
    for (uint32_t k = 0; k < clients->options->clients; k++) {
        sim_client *client = &clients->client[k];
        FED_TRY(fedtrain_share_hold(&client->share, fraction, seed, &client->held, err));
        client->holds = true;
    }
    return FED_OK;
}

void sim_clients_close(sim_clients *clients) {
    for (size_t k = 0; k < clients->client_count; k++) {
        fedtrain_share_free(&clients->client[k].share);
        fedtrain_share_free(&clients->client[k].held);
        pthread_cond_destroy(&clients->client[k].worker_ready);
    }
    for (uint32_t i = 0; clients->workers != NULL && i < clients->options->threads; i++) {
        fedtrain_net_free(clients->workers[i].net);
        fed_arch_free(&clients->workers[i].arch);
        free(clients->workers[i].state);
        sim_trainer_close(&clients->workers[i].trainer);
    }
    sim_stores_close(clients->stores);
    free(clients->client);
    free(clients->waiting);
    free(clients->away);
    free(clients->initial);
    free(clients->workers);
    fedtrain_data_free(&clients->train);
    fedtrain_data_free(&clients->test);
    pthread_cond_destroy(&clients->changed);
    pthread_mutex_destroy(&clients->mutex);
}

static double cpu_of(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

double sim_cpu_s(void) {
    return cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
}

void sim_clients_show(sim_clients *clients, const sim_watch *watch, double virtual_s) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    pthread_mutex_lock(&clients->mutex);
    const double wall_s =
        clients->began_wall_ms != 0 ? 1e-3 * (double)(now_ms - clients->began_wall_ms) : 0;
    const sim_progress progress = {.round = clients->kept.round,
                                   .rounds = clients->rounds,
                                   .reported = clients->kept.reported,
                                   .evaluated = clients->kept.evaluated,
                                   .accuracy = clients->kept.accuracy,
                                   .test_loss = clients->kept.test_loss,
                                   .virtual_s = clients->virtual_time != NULL ? virtual_s : wall_s,
                                   .wall_s = wall_s};
    pthread_mutex_unlock(&clients->mutex);
    watch->progress(watch->user, &progress);
}

fed_status sim_clients_failure(const sim_clients *clients, fed_error *err) {
    for (size_t k = 0; k < clients->client_count; k++) {
        const sim_client *client = &clients->client[k];
        if (client->error.status != FED_OK) {
            return fed_fail(err, client->error.status, "client %u gave up (%s): %s", client->k,
                            fed_status_text(client->error.status), client->error.text);
        }
    }
    return FED_OK;
}

bool sim_is_away(sim_clients *clients, uint32_t round, uint32_t k) {
    const sim_options *o = clients->options;
    if (clients->away_round != round) {
        sim_draw_away(o->seed, round, o->clients, o->offline, clients->away);
        clients->away_round = round;
    }
    return clients->away[k];
}

bool sim_has_trainers(const sim_options *options) {
    return options->trainers != NULL && options->trainers[0] != '\0';
}

bool sim_wants_measured(const sim_clients *clients, uint32_t version) {
    return version % clients->measured_every == 0;
}

void sim_client_take_part(sim_client *client) {
    pthread_mutex_lock(&client->clients->mutex);
    client->clients->kept.running += client->kept.takes_part ? 0U : 1U;
    client->kept.takes_part = true;
    pthread_mutex_unlock(&client->clients->mutex);
}

sim_step_end sim_step_end_of(const fedclient_event *event) {
    return (sim_step_end){.outcome = event->outcome,
                          .reason = event->reason,
                          .round = event->round,
                          .version = event->version,
                          .wait_ms = event->wait_ms};
}

bool sim_step_ends_run(const fedclient_event *event, const fed_error *err) {
    return event->outcome == FEDCLIENT_DECLINED && err->status != FED_ENONFINITE;
}

bool sim_step_is_last(const sim_step_end *end) {
    return end->outcome == FEDCLIENT_FINISHED ||
           (end->outcome == FEDCLIENT_WAITED && end->reason == FED_WAIT_FINISHED);
}

fed_status sim_client_finish(sim_client *client, fedclient *fed, fed_error *err) {
    uint64_t task = 0;
    uint32_t version = 0;
    float *values = NULL;
    size_t count = 0;
    const fed_status status = fedclient_model(fed, &task, &version, &values, &count, err);
    const bool foreign = sim_is_foreign(client->clients->options);
    const bool unasked = client->evaluates && client->clients->unmeasured;
    if (status == FED_ENOTFOUND && (!client->kept.takes_part || foreign || unasked)) {
        return FED_OK;
    }
    FED_TRY(status);
    client->kept.has_model = true;
    client->kept.digest = fed_digest(values, count);
    free(values);
    return FED_OK;
}
