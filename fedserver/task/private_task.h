/* Private tasks: what devices are told of one, and what does not go with one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PRIVATE_TASK_H
#define FEDSERVER_PRIVATE_TASK_H

#include <stdbool.h>

#include "fed/arch.h"
#include "fed/error.h"
#include "fed/privacy.h"
#include "fedserver/task/fields.h"

/** Is the task private? Then codec_up is `ring`, and its updates have the form `masked`. */
bool fedserver_task_is_private(const fedserver_task *task);

/** What devices are told of the task in an assignment. All 0 where it is not private. */
fed_privacy fedserver_privacy_of(const fedserver_task *task);

/** The shape of an update's fields. The task is private, the layout that of its model. */
fed_privacy_fields fedserver_private_fields(const fedserver_task *task, const fed_layout *layout);

/** Check a task whose values were all read: does all of it go with `clip` and the codec `ring`?
 * FED_EINVAL: *id is the key that is wrong or missing, *why a sentence. */
fed_status fedserver_private_check(const fedserver_task *task, const fed_arch *arch,
                                   fedserver_field_id *id, fed_error *why) FED_CHECKED;

#endif
