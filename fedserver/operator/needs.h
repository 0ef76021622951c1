/* Estimates how much disk and memory a task takes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_NEEDS_H
#define FEDSERVER_NEEDS_H

#include "fedserver/server.h"

/** Estimate the disk and memory that a task takes while it runs. Updates count with the largest
 * size that their codec can make. */
fed_status fedserver_needs_estimate(const fedserver_task *task, const fed_layout *layout,
                                    fedserver_needs *needs, fed_error *err) FED_CHECKED;

/** Memory limit of all running tasks, in bytes; 0: no limit, or no process has served yet. */
fed_status fedserver_memory_limit(const fedserver *server, uint64_t *bytes,
                                  fed_error *err) FED_CHECKED;

/** Can the task ever run? FED_ERANGE: the task takes more memory than all tasks together may
 * take. */
fed_status fedserver_needs_fit(const fedserver *server, const fedserver_needs *needs,
                               fed_error *err) FED_CHECKED;

/** Can the task's model be stored? FED_ERANGE: its row takes more than the store's row_limit (0:
 * no limit). FED_ENOSPC: the directory's free space is too small for the model and its versions. */
fed_status fedserver_needs_check(const fedserver_needs *needs, uint64_t row_limit,
                                 const char *directory, fed_error *err) FED_CHECKED;

#endif
