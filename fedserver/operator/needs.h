/* How much disk and memory a task takes: estimated before it is queued. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_NEEDS_H
#define FEDSERVER_NEEDS_H

#include "fedserver/server.h"

/** Estimate what a task takes while it runs. The model's part of the disk is its size after some
 * rounds; updates are as large as their codec can make them. */
fed_status fedserver_needs_estimate(const fedserver_task *task, fedserver_needs *needs,
                                    fed_error *err) FED_CHECKED;

/** The memory that this coordinator's tasks may take together, as the process that serves was told;
 * 0: no limit, or no process has served yet. */
fed_status fedserver_memory_limit(const fedserver *server, uint64_t *bytes,
                                  fed_error *err) FED_CHECKED;

/** FED_ERANGE: the task takes more memory than all tasks together may take. */
fed_status fedserver_needs_fit(const fedserver *server, const fedserver_needs *needs,
                               fed_error *err) FED_CHECKED;

/** FED_ERANGE: the model takes more than the store's row_limit (0: none). FED_ENOSPC: the
 * directory's free space is too small for the model's part. */
fed_status fedserver_needs_check(const fedserver_needs *needs, uint64_t row_limit,
                                 const char *directory, fed_error *err) FED_CHECKED;

#endif
