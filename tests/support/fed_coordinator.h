/* A real coordinator for tests: a directory of its own, served on loopback by a thread. */
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
    char *ca;                /* PEM */
    uint16_t front, devices; /* ports; a restart keeps them */
    uint32_t requests_per_s; /* fedserver_http_options; 0: its default */
    fedserver *server;
    pthread_t thread;
    atomic_int stop;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ready;
} fed_coordinator;

/** Make a coordinator in parent/name, and start it. */
void fed_coordinator_open(fed_coordinator *c, const char *parent, const char *name);
void fed_coordinator_close(fed_coordinator *c);

void fed_coordinator_start(fed_coordinator *c);
void fed_coordinator_stop(fed_coordinator *c);

/** How many slots of the open round are taken, and how often a device has declined since the start.
 * The figures belong to the thread that serves, so the thread ends first. Then the coordinator
 * starts again. */
void fed_coordinator_look(fed_coordinator *c, uint32_t *leased, uint64_t *declines);

/** A token for one device. */
void fed_coordinator_token(const fed_coordinator *c, char token[FEDSERVER_TOKEN]);
void fed_coordinator_token_for(const fed_coordinator *c, fedserver_role role,
                               char token[FEDSERVER_TOKEN]);

#endif
