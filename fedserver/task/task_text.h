/* A task as one text, which stores keep: the keys of the task file, in a fixed order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_TEXT_H
#define FEDSERVER_TASK_TEXT_H

#include "fed/bytes.h"
#include "fedserver/task/task.h"

/* The text is a JSON object with the keys of a task file, in the order of task_keys.def. A value
 * that is empty, and empty by default, is left out; in a phase, where that of the phase before is
 * empty, too. Equal tasks have equal texts. The text does not
 * have the task's number, state and times. */

void fedserver_task_text_write(const fedserver_task *task, fed_writer *w);

/** Read text[len] into *task; members that have no key in task_keys.def become 0. `id` is the
 * task's number for messages. A key that the text lacks has its default, because the text is older
 * than the key. FED_EFORMAT: the text is damaged. FED_EVERSION: the text has a key that this
 * program does not know. */
fed_status fedserver_task_text_read(uint64_t id, const char *text, size_t len, fedserver_task *task,
                                    fed_error *err) FED_CHECKED;

#endif
