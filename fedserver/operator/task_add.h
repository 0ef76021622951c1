/* Puts a task at the end of the queue: one that was read from a file, or an edge aggregator's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_ADD_H
#define FEDSERVER_TASK_ADD_H

#include "fedserver/server.h"

/** Have store, disk and memory room for the task? layout: its model. FED_ERANGE, FED_ENOSPC: they
 * have not. */
fed_status fedserver_task_fits(const fedserver *server, const fedserver_task *task,
                               const fed_layout *layout, fed_error *err) FED_CHECKED;

/** A new task and what is stored with it. */
typedef struct fedserver_new_task {
    fedserver_task *task; /* gets its number: task->wire.id */
    const char *layout;   /* the text that the task's model names; NULL: it names none */
    float *values;        /* [size]: the first model */
    size_t size;
} fedserver_new_task;

/** Queue a task with its first model, and commit. */
fed_status fedserver_task_queue(fedserver *server, const fedserver_new_task *fresh,
                                fed_error *err) FED_CHECKED;

#endif
