/* The phases of a task: which values hold in which of its rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PHASES_H
#define FEDSERVER_PHASES_H

#include "fedserver/task/task.h"

/*
 * The number of the round decides the phase, so the store keeps no phase. After a restart the task
 * goes on in the right phase. And an update that was trained in an earlier round is judged by the
 * phase of that round.
 */

/** The number of a round's phase, from 0 to task->phase_count. Phase 0 is the phase that the
 * task begins with. */
uint32_t fedserver_phase_number(const fedserver_task *task, uint32_t round);

/** The values that hold in phase `number`. Phase 0 begins with round 1. */
fedserver_phase fedserver_phase_at(const fedserver_task *task, uint32_t number);

/** The values that hold in round `round`. */
fedserver_phase fedserver_phase_of(const fedserver_task *task, uint32_t round);

/** Copy the phase's values into the task itself, where they become phase 0. */
void fedserver_phase_begin(const fedserver_phase *phase, fedserver_task *task);

/** Copy the phase's values into the part of the task that devices are told. */
void fedserver_phase_apply(const fedserver_phase *phase, fed_task *wire);

#endif
