/* A task as one text, for stores: all that its file said, in one order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_TEXT_H
#define FEDSERVER_TASK_TEXT_H

#include "fed/bytes.h"
#include "fedserver/task/task.h"

/*
 * The text is a JSON object with the keys of a task file, in the order of task_keys.def. A value
 * that is empty, and empty by default, is left out. Equal tasks have equal texts. A task that is
 * read has every bit that was written. The text has neither number nor state nor times of a task.
 */

void fedserver_task_text_write(const fedserver_task *task, fed_writer *w);

/** Read text[len] into *task; members without a key in the text become 0. `id` names the task in
 * messages. A key that the text lacks has its default, because the text is older than the key.
 * Errors: FED_EFORMAT; FED_EVERSION the text has a key that this program does not know. */
fed_status fedserver_task_text_read(uint64_t id, const char *text, size_t len, fedserver_task *task,
                                    fed_error *err) FED_CHECKED;

#endif
