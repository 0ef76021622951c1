/* A task as one text, for stores: all that its file said, in one order. */
#ifndef FEDSERVER_TASK_TEXT_H
#define FEDSERVER_TASK_TEXT_H

#include "fed/bytes.h"
#include "fedserver/task/task.h"

/*
 * The text is a JSON object with the keys of a task file, in the order of task_keys.def. A value
 * that is empty, as it is by default, is left out. Equal tasks have equal texts, and a task that is
 * read has every bit that was written. Number, state and times of a task are not in it.
 */

void fedserver_task_text_write(const fedserver_task *task, fed_writer *w);

/** Read text[len] into *task, whose other members become 0. `id` names it in messages. A key that
 * the text lacks, since it is older than the key, has its default. Errors: FED_EFORMAT;
 * FED_EVERSION a newer release wrote it. */
fed_status fedserver_task_text_read(uint64_t id, const char *text, size_t len, fedserver_task *task,
                                    fed_error *err) FED_CHECKED;

#endif
