/* A task from its start to its last round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TRAINING_H
#define FEDSERVER_TRAINING_H

#include "fedserver/rounds/intake.h"

/** Fill in rounds->training from the store: devices must be loaded. */
fed_status fedserver_training_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Run a queued task, from its start or where it was set aside. Another process may have taken it
 * out of the queue: then nothing runs. */
fed_status fedserver_training_start(fedserver_rounds *rounds, const fedserver_task *task,
                                    int64_t now_ms, fed_error *err) FED_CHECKED;

/** Deadlines and goals: commit or reopen the round where it is time. */
fed_status fedserver_training_advance(fedserver_rounds *rounds, int64_t now_ms,
                                      fed_error *err) FED_CHECKED;

/** Store an update that is open, and add it to the round's sum, after fedserver_round_step said so.
 * digest: of its body. */
fed_status fedserver_training_count(fedserver_rounds *rounds, fedserver_device *device,
                                    const fedserver_update *update, uint64_t digest, int64_t now_ms,
                                    fed_error *err) FED_CHECKED;

/** For a process that does not serve: what the store has of the running task, its open round and
 * the devices. *view: the task as much as its round needs; without a running task it is empty.
 * *runs: a task runs. log: NULL for none. Owner: fedserver_rounds_free, after a failure too. */
fed_status fedserver_rounds_view(const fedserver_store *store, void *db, const fed_log *log,
                                 fedserver_rounds *view, bool *runs, fed_error *err) FED_CHECKED;

/** Mark the devices that have declined the task in rounds->training: devices must be loaded. */
fed_status fedserver_declines_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

#endif
