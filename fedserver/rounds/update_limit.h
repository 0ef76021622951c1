/* How large an update may be: of any task that has run, since its answer may have been lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_UPDATE_LIMIT_H
#define FEDSERVER_UPDATE_LIMIT_H

#include "fedserver/rounds/rounds.h"

/**
 * Set rounds->update_limit to the bytes of the largest update of all tasks that have ever started.
 * A device may send an update of a task that is paused or over, because its first answer was lost.
 * If the coordinator refused its size, the device would take a counted update for one that was not
 * counted (D2). Reads each task once: for the start of a process.
 */
fed_status fedserver_update_limit_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

#endif
