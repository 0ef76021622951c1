/* Runs a task from its start to its last round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TRAINING_H
#define FEDSERVER_TRAINING_H

#include "fedserver/rounds/intake.h"

/** Load a task: its newest version, its open round, and the sum of the round's updates. */
fed_status fedserver_training_open(fedserver_rounds *rounds, const fedserver_task *task,
                                   fedserver_training **opened, fed_error *err) FED_CHECKED;

/** Read a running task's open round, without its updates. */
fed_status fedserver_round_load(fedserver_rounds *rounds, fedserver_training *training,
                                fed_error *err) FED_CHECKED;

/** Start a queued task, or resume it after a pause. Does nothing if the task is no longer
 * queued. */
fed_status fedserver_training_start(fedserver_rounds *rounds, const fedserver_task *task,
                                    int64_t now_ms, fed_error *err) FED_CHECKED;

/** Check the task's deadline and goal: close its round, or open its next attempt, if it is time. A
 * large model gets its version from a thread, and the round is committed in a later call
 * (rounds/closing.h). */
fed_status fedserver_training_advance(fedserver_rounds *rounds, fedserver_training *training,
                                      int64_t now_ms, fed_error *err) FED_CHECKED;

/** The round's next attempt has opened, since the last one, *before, had too few updates: log it,
 * store the round and offer its slots. */
fed_status fedserver_training_reopened(fedserver_rounds *rounds, fedserver_training *training,
                                       const fedserver_round *before, int64_t now_ms,
                                       fed_error *err) FED_CHECKED;

/** Log a sentence about a round of the task. The line begins with the task and the round. */
void fedserver_training_say(const fedserver_rounds *rounds, const fedserver_training *training,
                            uint32_t round, fed_log_level level, const char *format, ...)
    FED_PRINTF(5, 6);

/** Commit the open round, whatever has arrived, with a version that another coordinator has made.
 * The task must have an open round. values: float32[layout->size] of the version. last: the task is
 * finished with this version. */
fed_status fedserver_training_take(fedserver_rounds *rounds, fedserver_training *training,
                                   const float *values, bool last, int64_t now_ms,
                                   fed_error *err) FED_CHECKED;

/** Start the thread of a round that closes, and the thread that frees an old version. Call this
 * function after each commit. */
void fedserver_training_committed(fedserver_rounds *rounds, fedserver_training *training);

/** Store an open update (rounds/intake.h), and add it to the round's sum. The caller has called
 * fedserver_round_step, which returned COUNT. digest: of the update's body */
fed_status fedserver_training_count(fedserver_rounds *rounds, fedserver_training *training,
                                    fedserver_device *device, const fedserver_update *update,
                                    uint64_t digest, int64_t now_ms, fed_error *err) FED_CHECKED;

#endif
