/* The tasks in memory: those that run, and those that finished last. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_RUNNING_H
#define FEDSERVER_RUNNING_H

#include "fedserver/rounds/rounds.h"

/** How many finished tasks stay in memory, so that devices get their last models. */
enum { FEDSERVER_FINISHED_KEPT = 4 };

/** Bring the tasks that run and those that finished last into memory. Finished tasks that do not
 * fit into the memory for tasks are left out. Replaces what is in memory. */
fed_status fedserver_tasks_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Bytes that the tasks in memory take together. */
uint64_t fedserver_rounds_memory(const fedserver_rounds *rounds);

/** What was written is committed: fedserver_training_committed, for each task in memory. */
void fedserver_rounds_committed(fedserver_rounds *rounds);

/** Check deadline and goal of each task in memory: fedserver_training_advance. */
fed_status fedserver_rounds_advance(fedserver_rounds *rounds, int64_t now_ms,
                                    fed_error *err) FED_CHECKED;

/** For a process that does not serve: read the running tasks, their open rounds with their leases,
 * and who has declined them. *view has as much of each task as its round needs. log may be NULL.
 * Owner: fedserver_rounds_free, also after a failure. */
fed_status fedserver_rounds_view(const fedserver_store *store, void *db, const fed_log *log,
                                 fedserver_rounds *view, fed_error *err) FED_CHECKED;

/** Likewise, without those who have declined. */
fed_status fedserver_rounds_outline(const fedserver_store *store, void *db, const fed_log *log,
                                    fedserver_rounds *view, fed_error *err) FED_CHECKED;

/** Called with a task of the store. *more: go on with the next task; true at first. */
typedef fed_status (*fedserver_task_call)(void *user, const fedserver_task *task, bool *more,
                                          fed_error *err);

/** Call `call` for each task that has the state, in the order of the list of tasks. `call` may
 * change the store. */
fed_status fedserver_tasks_with(const fedserver_store *store, void *db, fedserver_task_state state,
                                fedserver_task_call call, void *user, fed_error *err) FED_CHECKED;

#endif
