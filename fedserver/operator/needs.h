/* How much disk and memory a task takes: estimated before it is queued. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_NEEDS_H
#define FEDSERVER_NEEDS_H

#include "fedserver/stores/store.h"

/** Estimate what a task takes while it runs. The model's part of the disk is its size after some
 * rounds; updates are as large as their codec can make them. */
fed_status fedserver_needs_estimate(const fedserver_task *task, fedserver_needs *needs,
                                    fed_error *err) FED_CHECKED;

/** FED_ERANGE: the model takes more than the store's row_limit (0: none). FED_ENOSPC: the
 * directory's free space is too small for the model's part. */
fed_status fedserver_needs_check(const fedserver_needs *needs, uint64_t row_limit,
                                 const char *directory, fed_error *err) FED_CHECKED;

#endif
