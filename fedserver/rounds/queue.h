/* The queue of tasks. A task starts as soon as it fits into memory beside the running ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_QUEUE_H
#define FEDSERVER_QUEUE_H

#include "fedserver/rounds/rounds.h"

/** Take over what another process has changed: remove paused and cancelled tasks from memory,
 * delete what cancelled tasks have left, and set rounds->paused. */
fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Start the queued tasks that fit, in their order, and return free space of the store to the file
 * system. *next_ms is changed if this function must be called again soon. */
fed_status fedserver_queue_advance(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) FED_CHECKED;

/** Delete what cancelled tasks have left, and return all free space to the file system. For a
 * process that does not serve. */
fed_status fedserver_queue_tidy(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Is the task's state in the bit set `states` (1 << state)? False where there is no such task. */
fed_status fedserver_task_is(const fedserver_rounds *rounds, uint64_t id, unsigned states, bool *is,
                             fed_error *err) FED_CHECKED;

#endif
