/* The queue of tasks: a task leaves it as soon as it fits into memory beside the others. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_QUEUE_H
#define FEDSERVER_QUEUE_H

#include "fedserver/rounds/rounds.h"

/** If a task was changed: take each one out of memory that a person has cancelled or paused, and
 * note whether there are paused ones. */
fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Start the queued tasks that fit, in their order, and give space back to the file system.
 * *next_ms becomes earlier if the queue needs another look before that time. */
fed_status fedserver_queue_advance(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) FED_CHECKED;

/** Give back all the space that cancelled tasks have left. For a process that does not serve. */
fed_status fedserver_queue_tidy(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Has the task one of these states (1 << state)? One that is not there has none. */
fed_status fedserver_task_is(const fedserver_rounds *rounds, uint64_t id, unsigned states, bool *is,
                             fed_error *err) FED_CHECKED;

#endif
