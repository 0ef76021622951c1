/* The queue of tasks: decides which task runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_QUEUE_H
#define FEDSERVER_QUEUE_H

#include "fedserver/rounds/rounds.h"

/** Put the running task away if a person has cancelled or paused the task. */
fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Set aside a task that no device serves, start the next task, and give space back to the file
 * system. *next_ms becomes earlier if the queue needs another look before that time. */
fed_status fedserver_queue_advance(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) FED_CHECKED;

/** Give back all the space that cancelled tasks have left. For a process that does not serve. */
fed_status fedserver_queue_tidy(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Was that task cancelled? False if the store fails. */
bool fedserver_task_cancelled(fedserver_rounds *rounds, uint64_t id);

#endif
