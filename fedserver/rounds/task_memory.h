/* Computes how much memory a task takes, and whether it fits beside the running tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_MEMORY_H
#define FEDSERVER_TASK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/store.h"

/** The memory that a task takes while it runs, in bytes: its arrays of the model's size, and the
 * largest update. Devices' rows and connections are not counted. layout: the task's model. */
fed_status fedserver_memory_of(const fedserver_task *task, const fed_layout *layout,
                               uint64_t *bytes, fed_error *err) FED_CHECKED;

/** fedserver_memory_of for a stored task. A task whose model can't be read takes nothing, since its
 * start says why. */
fed_status fedserver_memory_find(const fedserver_store *store, void *db, const fedserver_task *task,
                                 uint64_t *bytes, fed_error *err) FED_CHECKED;

/** Does a task of `need` bytes fit beside tasks that take `used` bytes? All tasks together may take
 * `limit` bytes; 0: there is no limit. */
bool fedserver_memory_fits(uint64_t limit, uint64_t used, uint64_t need);

/** Write to dst[cap] why a task that does not fit waits, and what to do. 320 bytes are enough. */
void fedserver_memory_report(uint64_t limit, uint64_t used, uint64_t need, char *dst, size_t cap);

#endif
