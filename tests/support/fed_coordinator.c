/* A coordinator for tests, served on loopback by a thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_coordinator.h"

#include "fed_operator.h"
#include "fed_port.h"
#include "fed_test.h"
#include "fedserver/server.h"

static void note_ready(void *user, uint16_t front, uint16_t devices) {
    fed_coordinator *c = user;
    pthread_mutex_lock(&c->mutex);
    c->front = front;
    c->devices = devices;
    c->ready = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static void *serve(void *user) {
    fed_coordinator *c = user;
    fed_error err = {0};
    const fedserver_http_options options = {.bind = "127.0.0.1",
                                            .front_port = c->front,
                                            .devices_port = c->devices,
                                            .connection_limit = 50,
                                            .requests_per_s = c->requests_per_s,
                                            .stop = &c->stop,
                                            .ready = note_ready,
                                            .user = c};
    if (fedserver_http_serve(c->server, &options, NULL, &err) != FED_OK) {
        fprintf(stderr, "the test's coordinator ended with an error: %s\n", err.text);
        note_ready(c, 0, 0);
    }
    return NULL;
}

void fed_coordinator_start(fed_coordinator *c) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &c->server, &err));
    c->stop = 0;
    c->ready = false;
    assert_int_equal(pthread_create(&c->thread, NULL, serve, c), 0);
    pthread_mutex_lock(&c->mutex);
    while (!c->ready) {
        pthread_cond_wait(&c->changed, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    assert_int_not_equal(c->front, 0);
}

static void end_thread(fed_coordinator *c) {
    c->stop = 1;
    pthread_join(c->thread, NULL);
}

void fed_coordinator_stop(fed_coordinator *c) {
    end_thread(c);
    fedserver_close(c->server);
}

void fed_coordinator_look(fed_coordinator *c, uint32_t *leased, uint64_t *declines) {
    end_thread(c);
    *leased = fedserver_rounds_front(&c->server->rounds)->round.leased;
    *declines = c->server->rounds.counters.declines;
    fedserver_close(c->server);
    fed_coordinator_start(c);
}

void fed_coordinator_open(fed_coordinator *c, const char *parent, const char *name) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    const fedserver_init_options options = {.hosts = hosts};
    fed_error err = {0};
    *c = (fed_coordinator){.front = fed_port_keep(), .devices = fed_port_keep()};
    snprintf(c->directory, sizeof c->directory, "%s/%s", parent, name);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    assert_fed_ok_err(fedserver_init(c->directory, &options, &err));
    c->ca = fed_operator_ca(c->directory);
    fed_coordinator_start(c);
}

void fed_coordinator_close(fed_coordinator *c) {
    if (c->ca != NULL) {
        fed_coordinator_stop(c);
        pthread_mutex_destroy(&c->mutex);
        pthread_cond_destroy(&c->changed);
        free(c->ca);
        c->ca = NULL;
    }
}

void fed_coordinator_token_for(const fed_coordinator *c, fedserver_role role,
                               char token[FEDSERVER_TOKEN]) {
    const fedserver_grant grant = {.ttl_s = 3600, .role = role};
    fed_operator_token(c->directory, &grant, token);
}

void fed_coordinator_token(const fed_coordinator *c, char token[FEDSERVER_TOKEN]) {
    fed_coordinator_token_for(c, FEDSERVER_ROLE_DEVICE, token);
}
