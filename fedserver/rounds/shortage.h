/* Notices where too few devices may take part in a round, since others have spent their privacy. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SHORTAGE_H
#define FEDSERVER_SHORTAGE_H

#include "fedserver/rounds/rounds.h"

/*
 * A task that promises an epsilon ends for its budget when no device has a participation left. It
 * may stop before: when fewer devices than a round needs (fedserver_round_least) may take part in
 * the open round, while with all devices that are enrolled there would be enough. Then the round
 * has no slots, so nobody trains for nothing. Devices that enrol meanwhile let it go on. If none do
 * within the task's deadline, the task is finished with the version that it has (decision 50). Who
 * takes part in each `apart`-th round only counts as one who may not, while it rests: no later
 * round comes without this one.
 */

/** Are there too few? Then nobody gets a lease. */
bool fedserver_is_short(const fedserver_training *training);

/** When the task is finished if there are still too few then, in Unix ms. */
int64_t fedserver_shortage_ends_ms(const fedserver_training *training);

/** Count the devices. since_ms: if there are too few, and there were enough before, they are too
 * few since then. Does nothing to tasks that promise nothing. */
fed_status fedserver_shortage_look(fedserver_rounds *rounds, fedserver_training *training,
                                   int64_t since_ms, int64_t now_ms, fed_error *err) FED_CHECKED;

/** Count again while there are too few, about once a second, and say in the log when that begins
 * and ends. *over: the task is to be finished now. *again: there are enough again, so there are
 * slots. */
fed_status fedserver_shortage_advance(fedserver_rounds *rounds, fedserver_training *training,
                                      int64_t now_ms, bool *over, bool *again,
                                      fed_error *err) FED_CHECKED;

/** Write what the round waits for, as a sentence that follows "waiting for", cut to cap bytes. */
void fedserver_shortage_report(const fedserver_training *training, char *dst, size_t cap);

#endif
