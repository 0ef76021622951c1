/* Gives out a task's results: its model as a file, its rounds, and the devices' custom metrics. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_EXPORT_H
#define FEDSERVER_TASK_EXPORT_H

#include "fedserver/server.h"

/** The model that was written. */
typedef struct fedserver_written {
    uint64_t task;
    char name[FEDSERVER_TASK_NAME];
    uint32_t version;
} fedserver_written;

/** The same as fedserver_model_export, with a file mode for fed_file_replace. */
fed_status fedserver_model_write(fedserver *server, uint64_t task, const char *path, unsigned mode,
                                 fedserver_written *written, fed_error *err) FED_CHECKED;

#endif
