/* Which task runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_QUEUE_H
#define FEDSERVER_QUEUE_H

#include "fedserver/rounds/rounds.h"

/** Let go of the task that runs if a person has cancelled or paused it. */
fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Set a task aside that no device serves, start the next one, give space back to the file system.
 * *next_ms becomes earlier where the queue must be looked at before that time. */
fed_status fedserver_queue_advance(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) FED_CHECKED;

/** Give back all the space that cancelled tasks have left. For a process that does not serve. */
fed_status fedserver_queue_tidy(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Was that task cancelled? false where the store fails. */
bool fedserver_task_cancelled(fedserver_rounds *rounds, uint64_t id);

#endif
