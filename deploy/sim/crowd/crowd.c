/* The clients of a run: opened with their data and the places to work at, closed at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/crowd/sim.h"
#include "deploy/sim/virtual/state.h"
#include "fed/clock.h"
#include "fed/hash.h"

enum { HOLD_MS = 20000 };

static fed_status open_places(sim_crowd *crowd) {
    crowd->all_places = calloc(crowd->options->threads, sizeof *crowd->all_places);
    FED_REQUIRE(crowd->all_places != NULL, FED_ENOMEM);
    for (uint32_t i = 0; i < crowd->options->threads; i++) {
        crowd->all_places[i].next = crowd->places;
        crowd->places = &crowd->all_places[i];
    }
    return FED_OK;
}

static void open_client(sim_crowd *crowd, uint32_t k) {
    sim_client *client = &crowd->client[k];
    client->crowd = crowd;
    client->k = k;
    client->evaluates = k == crowd->options->clients;
    pthread_cond_init(&client->turn, NULL);
    sim_flash_platform(crowd->flash, k, &client->platform);
    if (client->evaluates) {
        sim_take_up(client);
    }
}

/** Train and test alike, by the training set's figures. */
static fed_status normalise(sim_crowd *crowd, fed_error *err) {
    if (crowd->train.is_text) {
        return fed_fail(err, FED_EINVAL,
                        "normalise=1 is for numbers: a text has none; leave it out");
    }
    const size_t channels = crowd->train.set.shape.c;
    float *mean = malloc(2 * channels * sizeof *mean);
    FED_REQUIRE(mean != NULL, FED_ENOMEM);
    float *deviation = mean + channels;
    fedtrain_dataset_measure(&crowd->train.set, mean, deviation);
    fed_status status = fedtrain_dataset_normalise(&crowd->train.set, mean, deviation);
    if (status == FED_OK) {
        status = fedtrain_dataset_normalise(&crowd->test.set, mean, deviation);
    }
    free(mean);
    return status;
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

/** The number behind a word in one of the system's files; SIZE_MAX where there is none. */
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

/** What the clients' stores may have of the machine's memory: half of what is there now. */
static size_t memory_to_spare(void) {
    const size_t kilobytes = system_number("/proc/meminfo", "MemAvailable:");
    const size_t granted = system_number("/sys/fs/cgroup/memory.max", ""); /* of a container */
    const size_t available = kilobytes > SIZE_MAX / 1024 ? 0 : kilobytes * 1024;
    return (available < granted ? available : granted) / 2;
}

static fed_status open_flash(sim_crowd *crowd, fed_error *err) {
    const sim_options *o = crowd->options;
    const size_t memory = memory_to_spare();
    char path[600];
    if (o->state == NULL) {
        return sim_flash_open(NULL, o->clients + 1U, false, memory, &crowd->flash, err);
    }
    snprintf(path, sizeof path, "%s/clients", o->state);
    FED_TRY(o->resume ? sim_state_find(o, err) : sim_state_begin(o, err));
    return sim_flash_open(path, o->clients + 1U, o->resume, memory, &crowd->flash, err);
}

fed_status sim_crowd_open(sim_crowd *crowd, const sim_options *options, sim_log *log,
                          fed_error *err) {
    *crowd = (sim_crowd){.options = options, .log = log};
    pthread_mutex_init(&crowd->mutex, NULL);
    pthread_cond_init(&crowd->changed, NULL);
    const char *name = options->dataset, *directory = options->data;
    const char *part = options->train_part != NULL ? options->train_part : "train";
    FED_TRY(fedtrain_data_open(name, directory, part, part, &crowd->train, err));
    FED_TRY(fedtrain_data_open(name, directory, "test", part, &crowd->test, err));
    if (options->normalise) {
        FED_TRY(normalise(crowd, err));
    }
    FED_TRY(open_places(crowd));
    crowd->client = calloc(options->clients + 1U, sizeof *crowd->client);
    crowd->waiting = calloc(options->clients + 1U, sizeof(sim_client *));
    crowd->away = calloc(options->clients + 1U, sizeof *crowd->away);
    FED_REQUIRE(crowd->client != NULL && crowd->waiting != NULL && crowd->away != NULL, FED_ENOMEM);
    FED_TRY(open_flash(crowd, err));
    fed_rng_init(&crowd->dice, options->seed, 0, 0);
    for (uint32_t k = 0; k <= options->clients; k++) {
        open_client(crowd, k);
        crowd->client_count++;
    }
    return deal_out(crowd, err);
}

void sim_crowd_close(sim_crowd *crowd) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        fedtrain_share_free(&crowd->client[k].share);
        pthread_cond_destroy(&crowd->client[k].turn);
    }
    for (uint32_t i = 0; crowd->all_places != NULL && i < crowd->options->threads; i++) {
        fedtrain_net_free(crowd->all_places[i].net);
        fed_arch_free(&crowd->all_places[i].arch);
        free(crowd->all_places[i].state);
    }
    sim_flash_close(crowd->flash);
    free(crowd->client);
    free(crowd->waiting);
    free(crowd->away);
    free(crowd->all_places);
    fedtrain_data_free(&crowd->train);
    fedtrain_data_free(&crowd->test);
    pthread_cond_destroy(&crowd->changed);
    pthread_mutex_destroy(&crowd->mutex);
}

void sim_crowd_show(sim_crowd *crowd, const sim_watch *watch, double virtual_s) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    pthread_mutex_lock(&crowd->mutex);
    const double wall_s =
        crowd->began_wall_ms != 0 ? 1e-3 * (double)(now_ms - crowd->began_wall_ms) : 0;
    const sim_progress progress = {.round = crowd->round,
                                   .rounds = crowd->rounds,
                                   .reported = crowd->reported,
                                   .evaluated = crowd->evaluated,
                                   .accuracy = crowd->accuracy,
                                   .test_loss = crowd->test_loss,
                                   .virtual_s = crowd->inproc != NULL ? virtual_s : wall_s,
                                   .wall_s = wall_s};
    pthread_mutex_unlock(&crowd->mutex);
    watch->progress(watch->user, &progress);
}

fed_status sim_crowd_failure(const sim_crowd *crowd, fed_error *err) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        const sim_client *client = &crowd->client[k];
        if (client->error.status != FED_OK) {
            return fed_fail(err, client->error.status, "client %u gave up (%s): %s", client->k,
                            fed_status_text(client->error.status), client->error.text);
        }
    }
    return FED_OK;
}

fedclient_options sim_client_options(sim_client *client) {
    return (fedclient_options){.server = client->crowd->server,
                               .platform = &client->platform,
                               .transport = &client->transport,
                               .role = client->evaluates ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
                               .hold_ms = HOLD_MS,
                               .whole_bytes = UINT32_MAX, /* pieces cost the coordinator more */
                               .train = sim_work,
                               .user = client};
}

fed_status sim_client_finish(sim_client *client, fedclient *fed, fed_error *err) {
    uint64_t task = 0;
    uint32_t version = 0;
    float *values = NULL;
    size_t count = 0;
    FED_TRY(fedclient_model(fed, &task, &version, &values, &count, err));
    client->digest = fed_digest(values, count);
    free(values);
    return FED_OK;
}
