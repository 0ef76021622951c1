/* Clients over HTTPS: one thread each, with a libfedclient and a transport of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/https/https_clients.h"

#include <stdlib.h>
#include <string.h>

#include "deploy/sim/clients/run_log.h"
#include "deploy/sim/clients/train_callback.h"
#include "fed/clock.h"
#include "fed/threads.h"

enum { STACK_BYTES = 512 * 1024, ENROL_TRIES = 100, FOREIGN_TRIES = 3, ENROL_PAUSE_MS = 300 };

void sim_https_clients_assign(sim_clients *clients) {
    while (clients->free_workers != NULL && clients->waiting_count > 0 && !clients->kill_due) {
        uint32_t next = fed_rng_below(&clients->rng, (uint32_t)clients->waiting_count);
        sim_client *client = clients->waiting[next];
        clients->waiting[next] = clients->waiting[--clients->waiting_count];
        client->worker = clients->free_workers;
        clients->free_workers = client->worker->next;
        pthread_cond_signal(&client->worker_ready);
    }
}

/** Wait for a worker. Chance decides which client is next: in a fixed order, the same clients would
 * come too late in every round. */
static void worker_take(sim_client *client) {
    sim_clients *clients = client->clients;
    pthread_mutex_lock(&clients->mutex);
    clients->waiting[clients->waiting_count++] = client;
    sim_https_clients_assign(clients);
    while (client->worker == NULL) {
        pthread_cond_wait(&client->worker_ready, &clients->mutex);
    }
    pthread_mutex_unlock(&clients->mutex);
}

static void worker_give_back(sim_client *client) {
    if (client->worker == NULL) {
        return;
    }
    sim_clients *clients = client->clients;
    pthread_mutex_lock(&clients->mutex);
    client->worker->next = clients->free_workers;
    clients->free_workers = client->worker;
    client->worker = NULL;
    sim_https_clients_assign(clients);
    pthread_mutex_unlock(&clients->mutex);
}

static void pause_for(sim_clients *clients, uint32_t ms) {
    const int64_t until_us = fed_clock_monotonic_us() + (int64_t)ms * 1000;
    pthread_mutex_lock(&clients->mutex);
    while (clients->stop == 0 &&
           fed_cond_wait_until(&clients->changed, &clients->mutex, until_us)) {
    }
    pthread_mutex_unlock(&clients->mutex);
}

void sim_https_clients_wait(sim_clients *clients, uint32_t ms) {
    const int64_t until_us = fed_clock_monotonic_us() + (int64_t)ms * 1000;
    pthread_mutex_lock(&clients->mutex);
    if (!clients->kill_due) {
        (void)fed_cond_wait_until(&clients->changed, &clients->mutex, until_us);
    }
    pthread_mutex_unlock(&clients->mutex);
}

/** While options->offline keeps the client away from the next round, stay disconnected. */
static void stay_away(sim_client *client) {
    sim_clients *clients = client->clients;
    bool was_here = true;
    pthread_mutex_lock(&clients->mutex);
    while (clients->stop == 0 && !clients->kept.finished) {
        const uint32_t last = client->kept.last_counted;
        uint32_t next = clients->kept.round > last ? clients->kept.round : last + 1;
        if (!sim_is_away(clients, next, client->k)) {
            break;
        }
        if (was_here) {
            was_here = false;
            client->transport.disconnect(client->transport.user);
        }
        while (clients->stop == 0 && !clients->kept.finished && clients->kept.round <= next) {
            pthread_cond_wait(&clients->changed, &clients->mutex);
        }
    }
    pthread_mutex_unlock(&clients->mutex);
}

/** Wait until the newest model is to be measured. In round r the newest model has version r - 1. */
static void await_model(sim_client *client) {
    sim_clients *clients = client->clients;
    pthread_mutex_lock(&clients->mutex);
    while (clients->stop == 0 && !clients->kept.finished && clients->kept.round > 0 &&
           !sim_wants_measured(clients, clients->kept.round - 1)) {
        pthread_cond_wait(&clients->changed, &clients->mutex);
    }
    pthread_mutex_unlock(&clients->mutex);
}

static fed_status run_step(sim_client *client, fedclient *fed, fedclient_event *event, bool *over,
                           fed_error *err) {
    fed_status status = fedclient_step(fed, event, err);
    worker_give_back(client);
    FED_TRY(status);
    FED_REQUIRE(!sim_step_ends_run(event, err), err->status);
    pthread_mutex_lock(&client->clients->mutex);
    const sim_step_end end = sim_step_end_of(event);
    status = sim_note_event(client, &end, over, err);
    pthread_mutex_unlock(&client->clients->mutex);
    return status;
}

static fed_status run_steps(sim_client *client, fedclient *fed, fed_error *err) {
    for (bool over = false; client->clients->stop == 0 && !over;) {
        fedclient_event event = {0};
        if (client->evaluates) {
            await_model(client);
        } else {
            stay_away(client);
        }
        FED_TRY(run_step(client, fed, &event, &over, err));
        if (event.wait_ms > 0 && !over) {
            pause_for(client->clients, event.wait_ms);
        }
    }
    return FED_OK;
}

/** Take a worker for the step when its check-in is answered. Before that, the step needs none. */
static void answered(void *user, const fedclient_request *request) {
    sim_client *client = user;
    if (client->worker == NULL && request->kind == FED_REQUEST_CHECKIN) {
        pthread_mutex_lock(&client->clients->mutex);
        sim_note_checkin(client->clients, fed_clock_unix_ms());
        pthread_mutex_unlock(&client->clients->mutex);
        worker_take(client);
    }
}

/** Enrol while holding a worker, so that few clients enrol at a time: hundreds of handshakes at
 * once could exceed their time limit. */
static fed_status enrol_once(sim_client *client, fedclient *fed, const char *token,
                             fed_error *err) {
    worker_take(client);
    fed_status status = fedclient_enrol(fed, token, err);
    worker_give_back(client);
    return status;
}

/** Enrol. Try again after a network error, as the coordinator may just have been killed. One that
 * is not fedsim's may not be there at all. */
static fed_status enrol(sim_client *client, fedclient *fed, const char *token, fed_error *err) {
    const int most = sim_is_foreign(client->clients->options) ? FOREIGN_TRIES : ENROL_TRIES;
    fed_status status = enrol_once(client, fed, token, err);
    for (int tries = 0; tries < most && client->clients->stop == 0 &&
                        (status == FED_ENET || status == FED_ETIMEOUT);
         tries++) {
        pause_for(client->clients, ENROL_PAUSE_MS);
        status = enrol_once(client, fed, token, err);
    }
    return status;
}

static fed_status run_client(sim_client *client, const char *token, fed_error *err) {
    FED_TRY(fedclient_transport_open(NULL,
                                     &(fedclient_transport_options){.ca_pem = client->clients->ca},
                                     &client->lossy.inner, err));
    client->lossy.answered = answered;
    client->lossy.user = client;
    sim_lossy_open(&client->lossy, &client->transport);
    const fedclient_options options = sim_client_options(client);
    fedclient *fed = NULL;
    fed_status status = fedclient_open(&options, &fed, err);
    if (status == FED_OK) {
        status = enrol(client, fed, token, err);
    }
    client->transport.traffic(client->transport.user, &client->kept.enrolment);
    client->kept.charged = client->kept.enrolment;
    if (status == FED_OK) {
        status = run_steps(client, fed, err);
    }
    if (status == FED_OK && client->kept.finished) {
        status = sim_client_finish(client, fed, err);
    }
    client->transport.traffic(client->transport.user, &client->traffic);
    fedclient_close(fed);
    fedclient_transport_close(&client->lossy.inner);
    return status;
}

typedef struct start {
    sim_client *client;
    char token[FEDSERVER_TOKEN];
} start;

static void *client_main(void *argument) {
    const start s = *(start *)argument;
    free(argument);
    sim_client *client = s.client;
    sim_clients *clients = client->clients;
    fed_error err = {0};
    fed_status status = run_client(client, s.token, &err);
    pthread_mutex_lock(&clients->mutex);
    if (status != FED_OK && clients->stop == 0) {
        client->error = err;
        client->error.status = status;
        clients->failed++;
    }
    clients->kept.running -= client->kept.takes_part ? 1U : 0U;
    pthread_cond_broadcast(&clients->changed);
    pthread_mutex_unlock(&clients->mutex);
    return NULL;
}

static fed_status start_client(sim_client *client, const char *token, fed_error *err) {
    start *s = malloc(sizeof *s);
    FED_REQUIRE(s != NULL, FED_ENOMEM);
    s->client = client;
    memcpy(s->token, token, FEDSERVER_TOKEN);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_mutex_lock(&client->clients->mutex);
    int failed = pthread_create(&client->thread, &attributes, client_main, s);
    client->started = failed == 0;
    pthread_mutex_unlock(&client->clients->mutex);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        free(s);
        return fed_fail(err, FED_ENOMEM,
                        "can't start a thread for client %u: %s; use fewer clients", client->k,
                        strerror(failed));
    }
    return FED_OK;
}

fed_status sim_https_clients_start(sim_clients *clients, size_t count,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    for (size_t k = 0; k < count; k++) {
        FED_TRY(start_client(&clients->client[k], token[k], err));
    }
    return FED_OK;
}

void sim_https_clients_end(sim_clients *clients) {
    for (size_t k = 0; k < clients->client_count; k++) {
        if (clients->client[k].started) {
            pthread_join(clients->client[k].thread, NULL);
            clients->client[k].started = false;
        }
    }
}

void sim_https_clients_stop(sim_clients *clients) {
    pthread_mutex_lock(&clients->mutex);
    clients->stop = 1;
    pthread_cond_broadcast(&clients->changed);
    pthread_mutex_unlock(&clients->mutex);
}
