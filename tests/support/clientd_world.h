/* A coordinator, made-up digits, and fedclientd as a person runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENTD_WORLD_H
#define CLIENTD_WORLD_H

#include <sys/types.h>

#include "fed_coordinator.h"
#include "fed_test.h"

typedef struct clientd_world {
    char directory[256], state[300], ca[320], log[300], url[64];
    char token[FEDSERVER_TOKEN]; /* for one device */
    fed_coordinator coordinator;
} clientd_world;

/** cmocka's setup and teardown; *state is the world. */
int clientd_setup(void **state);
int clientd_teardown(void **state);

/** Give the coordinator this task. */
void clientd_queue(clientd_world *w, const char *json);

/** Start fedclientd with the usual options, then `more`, up to NULL. Its output goes to the log.
 * It ends after 300 s. */
pid_t clientd_spawn(const clientd_world *w, const char *const *more);

/** The exit status; -1: a signal ended it. */
int clientd_wait(pid_t pid);

/** Send this signal, with which it must end well. */
void clientd_end(pid_t pid, int signal);

bool clientd_says(const clientd_world *w, const char *text);

/** Wait until it says so. It must not end before that. */
void clientd_wait_for(const clientd_world *w, pid_t pid, const char *text);

/** Run it to its end: with this exit status, and this text in the log. */
void clientd_run(const clientd_world *w, const char *const *more, int wanted, const char *text);

#endif
