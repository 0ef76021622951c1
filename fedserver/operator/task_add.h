/* Puts a task at the end of the queue: one that was read from a file, or an edge aggregator's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_ADD_H
#define FEDSERVER_TASK_ADD_H

#include "fedserver/server.h"

/** Have the store, the disk and the memory for tasks room for the task? FED_ERANGE, FED_ENOSPC:
 * they have not. */
fed_status fedserver_task_fits(const fedserver *server, const fedserver_task *task,
                               fed_error *err) FED_CHECKED;

/** Queue a task with its first model, and commit. Sets task->wire.id.
 *   values  float32[size] */
fed_status fedserver_task_queue(fedserver *server, fedserver_task *task, float *values, size_t size,
                                fed_error *err) FED_CHECKED;

#endif
