/* Runs a task from its start to its last round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TRAINING_H
#define FEDSERVER_TRAINING_H

#include "fedserver/rounds/intake.h"

/** Bring a task into memory: its newest version, its open round, and the sum of the round's
 * updates. */
fed_status fedserver_training_open(fedserver_rounds *rounds, const fedserver_task *task,
                                   fedserver_training **opened, fed_error *err) FED_CHECKED;

/** Read a running task's open round, without its updates. */
fed_status fedserver_round_load(fedserver_rounds *rounds, fedserver_training *training,
                                fed_error *err) FED_CHECKED;

/** Run a queued task, from its start or from where it was paused. If another process has
 * taken the task out of the queue, nothing runs. */
fed_status fedserver_training_start(fedserver_rounds *rounds, const fedserver_task *task,
                                    int64_t now_ms, fed_error *err) FED_CHECKED;

/** Check the task's deadline and goal: close or reopen its round if it is time. A small version is
 * made and committed at once, and a large one once its thread has ended: rounds/closing.h. */
fed_status fedserver_training_advance(fedserver_rounds *rounds, fedserver_training *training,
                                      int64_t now_ms, fed_error *err) FED_CHECKED;

/**
 * Commit the open round, whatever has arrived, with a version that is given: another coordinator
 * has made it of this round's sum and of others'. The task has an open round.
 *
 * values  float32[layout->size], which become the version's
 * last    the task is finished with this version
 */
fed_status fedserver_training_take(fedserver_rounds *rounds, fedserver_training *training,
                                   const float *values, bool last, int64_t now_ms,
                                   fed_error *err) FED_CHECKED;

/** What was written is committed. A round that closes gets its thread. */
void fedserver_training_committed(fedserver_rounds *rounds, fedserver_training *training);

/** Store an open update, and add the update to the round's sum. The caller has asked
 * fedserver_round_step first.   digest: of the update's body */
fed_status fedserver_training_count(fedserver_rounds *rounds, fedserver_training *training,
                                    fedserver_device *device, const fedserver_update *update,
                                    uint64_t digest, int64_t now_ms, fed_error *err) FED_CHECKED;

#endif
