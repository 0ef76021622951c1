/* Pauses a task whose stored bytes can't be read, so that other tasks go on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SET_ASIDE_H
#define FEDSERVER_SET_ASIDE_H

#include "fedserver/rounds/rounds.h"

/** Does the status say that a task's stored bytes are damaged or can't be read? A failure of the
 * whole store can give the same status. */
bool fedserver_unreadable(fed_status status);

/** Change the state of a running task in the store to paused. `why` goes to the log and to the
 * audit log. The task must not be in memory. */
fed_status fedserver_set_aside(fedserver_rounds *rounds, const fedserver_task *task,
                               const fed_error *why, fed_error *err) FED_CHECKED;

#endif
