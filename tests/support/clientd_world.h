/* A coordinator, a data set, and the program fedclientd as a user runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENTD_WORLD_H
#define CLIENTD_WORLD_H

#include <sys/types.h>

#include "fed_coordinator.h"
#include "fed_test.h"

typedef struct clientd_world {
    char directory[256], state[300], ca[320], log[300], url[64];
    char token[FEDSERVER_TOKEN];
    fed_coordinator coordinator;
} clientd_world;

int clientd_setup(void **state);
int clientd_teardown(void **state);

void clientd_queue(clientd_world *w, const char *json);

/** Start fedclientd with the usual options and those of `more`, which ends with NULL. Its output
 * goes to the log. */
pid_t clientd_spawn(const clientd_world *w, const char *const *more);

/** Return the exit status; -1: a signal ended the process. */
int clientd_wait(pid_t pid);

/** Send this signal. The process must end with exit status 0. */
void clientd_end(pid_t pid, int signal);

bool clientd_says(const clientd_world *w, const char *text);

/** Wait until the log contains the text. The process must not end before. */
void clientd_wait_for(const clientd_world *w, pid_t pid, const char *text);

/** Run fedclientd to its end. It must exit with `wanted`, and its log must contain `text`. */
void clientd_run(const clientd_world *w, const char *const *more, int wanted, const char *text);

#endif
