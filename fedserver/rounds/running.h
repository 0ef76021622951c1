/* Loads into memory the running tasks and those that finished last. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_RUNNING_H
#define FEDSERVER_RUNNING_H

#include "fedserver/rounds/rounds.h"

/** At most this many finished tasks stay in memory, so that devices can get their last models. */
enum { FEDSERVER_FINISHED_KEPT = 4 };

/** Load the running tasks and those that finished last, in place of what is in memory. Finished
 * tasks are left out where they would exceed rounds->memory_limit. A running task that can't be
 * read is paused, and a finished one is left out. all: a task that can't be read is an error
 * instead. */
fed_status fedserver_tasks_load(fedserver_rounds *rounds, bool all, fed_error *err) FED_CHECKED;

/** Bytes that the tasks in memory take together. */
uint64_t fedserver_rounds_memory(const fedserver_rounds *rounds);

/** Call fedserver_training_committed for each task in memory, after a commit. */
void fedserver_rounds_committed(fedserver_rounds *rounds);

/** Check deadline and goal of each task in memory, by fedserver_training_advance. */
fed_status fedserver_rounds_advance(fedserver_rounds *rounds, int64_t now_ms,
                                    fed_error *err) FED_CHECKED;

/** Read the running tasks, without their models, for a process that does not serve: their open
 * rounds with leases, and the devices that declined. log may be NULL. Owner: fedserver_rounds_free,
 * also after a failure. */
fed_status fedserver_rounds_view(const fedserver_store *store, void *db, const fed_log *log,
                                 fedserver_rounds *view, fed_error *err) FED_CHECKED;

/** The same as fedserver_rounds_view, without the devices that declined. */
fed_status fedserver_rounds_outline(const fedserver_store *store, void *db, const fed_log *log,
                                    fedserver_rounds *view, fed_error *err) FED_CHECKED;

/** A function called with a task of the store. It sets *more to false to skip the remaining
 * tasks. */
typedef fed_status (*fedserver_task_call)(void *user, const fedserver_task *task, bool *more,
                                          fed_error *err);

/** Call `call` for each task in that state, in the order of store->task_each. `call` may change the
 * store. */
fed_status fedserver_tasks_with(const fedserver_store *store, void *db, fedserver_task_state state,
                                fedserver_task_call call, void *user, fed_error *err) FED_CHECKED;

#endif
