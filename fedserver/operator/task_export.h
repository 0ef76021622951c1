/* A task's newest model on its way into a file: found in the store, then written. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_EXPORT_H
#define FEDSERVER_TASK_EXPORT_H

#include "fedserver/server.h"

typedef struct fedserver_export {
    fedserver_task task;
    fedserver_model_row model;
} fedserver_export;

/** Find the task of that id (0: the one that runs, or else the one that ran last) and its model.
 * FED_ENOTFOUND: there is none; FED_EFORMAT: the model is damaged. Any other failure is the
 * store's. */
fed_status fedserver_export_find(fedserver *server, uint64_t task, fedserver_export *found,
                                 fed_error *err) FED_CHECKED;

/** Write the file, and free what was found. */
fed_status fedserver_export_save(fedserver_export *found, const char *path,
                                 fed_error *err) FED_CHECKED;

#endif
