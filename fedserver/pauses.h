/* Why tasks are paused, as the audit log says; kept in memory, so that its lines are read once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PAUSES_H
#define FEDSERVER_PAUSES_H

#include "fedserver/operator.h"
#include "fedserver/stores/store.h"

typedef struct fedserver_pause {
    uint64_t task;
    char why[FEDSERVER_TASK_WAITS];
} fedserver_pause;

typedef struct fedserver_pauses {
    fedserver_pause *items;
    size_t count;
    int64_t read; /* number of the last line of the audit log that was read; 0: none was */
} fedserver_pauses;

void fedserver_pauses_free(fedserver_pauses *pauses);

/** Say why a task is paused. why[FEDSERVER_TASK_WAITS] becomes "" if the audit log has no line
 * about it. Reads the lines that were written since the last call. */
fed_status fedserver_pauses_find(fedserver_pauses *pauses, const fedserver_store *store, void *db,
                                 uint64_t task, char *why, fed_error *err) FED_CHECKED;

#endif
