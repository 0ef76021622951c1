/* Makes the model of a stored task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_MODEL_H
#define FEDSERVER_TASK_MODEL_H

#include "fed/arch.h"
#include "fedserver/stores/store.h"

/** Parse a task's model, which is in the task or, if that names a layout, in the store. A task with
 * private layers has the shared tensors alone here (fed_arch_share). The caller frees *arch with
 * fed_arch_free. Errors: those of layout_find and of fed_arch_parse. FED_EFORMAT also if the stored
 * layout is not the one that the task names. */
fed_status fedserver_task_model(const fedserver_store *store, void *db, const fedserver_task *task,
                                fed_arch *arch, fed_error *err) FED_CHECKED;

/** Append the names of the tensors in a task's private layers, with blanks between them. names may
 * be NULL. *values: the number of their values. Errors: as fedserver_task_model. */
fed_status fedserver_task_private(const fedserver_store *store, void *db,
                                  const fedserver_task *task, fed_writer *names, uint64_t *values,
                                  fed_error *err) FED_CHECKED;

#endif
