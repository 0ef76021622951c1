/* The largest update that the coordinator accepts, over all tasks that were ever started. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_UPDATE_LIMIT_H
#define FEDSERVER_UPDATE_LIMIT_H

#include "fedserver/rounds/rounds.h"

/** Set rounds->update_limit. Reads each started task, so call it once, at the start of a process. A
 * device may repeat an update of a task that is paused or over, because the answer was lost. Such
 * an update must not be refused as too large (D2 in docs/durability.md). */
fed_status fedserver_update_limit_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

#endif
