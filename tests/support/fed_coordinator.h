/* A coordinator for tests, served on loopback by a thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_COORDINATOR_H
#define FED_COORDINATOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fedserver/http.h"
#include "fedserver/operator.h"

typedef struct fed_coordinator {
    char directory[300];
    char *ca;
    uint16_t front, devices; /* ports */
    uint32_t requests_per_s; /* as in fedserver_http_options; 0: its default */
    fedserver *server;
    pthread_t thread;
    atomic_int stop;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ready;
} fed_coordinator;

/** Make a coordinator in parent/name, and start serving. */
void fed_coordinator_open(fed_coordinator *c, const char *parent, const char *name);
void fed_coordinator_close(fed_coordinator *c);

void fed_coordinator_start(fed_coordinator *c);
void fed_coordinator_stop(fed_coordinator *c);

/** Return how many slots of the open round are taken, and how many declines there were. Restarts
 * the serving thread. */
void fed_coordinator_look(fed_coordinator *c, uint32_t *leased, uint64_t *declines);

void fed_coordinator_token(const fed_coordinator *c, char token[FEDSERVER_TOKEN]);
void fed_coordinator_token_for(const fed_coordinator *c, fedserver_role role,
                               char token[FEDSERVER_TOKEN]);

#endif
