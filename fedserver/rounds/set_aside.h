/* Pauses a task whose stored bytes can't be read, so that the coordinator and its other tasks go
 * on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SET_ASIDE_H
#define FEDSERVER_SET_ASIDE_H

#include "fedserver/rounds/rounds.h"

/** Did reading a task fail because of the task's own bytes, which can't be opened or are damaged?
 * The failure of the whole store can look the same, and then the next write fails too. */
bool fedserver_unreadable(fed_status status);

/** Store that the task, which the store has as running, is paused. The reason goes to the log and
 * to the audit log. The task must not be in memory. */
fed_status fedserver_set_aside(fedserver_rounds *rounds, const fedserver_task *task,
                               const fed_error *why, fed_error *err) FED_CHECKED;

#endif
