/* The phases of a task: looks up which settings hold in which rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PHASES_H
#define FEDSERVER_PHASES_H

#include "fedserver/task/task.h"

/*
 * The number of a round decides its phase, so the store need not keep the present phase. After a
 * restart the task goes on in the right phase. An update that was trained in an earlier round is
 * checked by the phase of that round.
 */

/** The number of a round's phase, from 0 to task->phase_count. The task begins with phase 0. */
uint32_t fedserver_phase_number(const fedserver_task *task, uint32_t round);

/** The settings of phase `number`. Phase 0 begins with round 1 and has the task's own settings. */
fedserver_phase fedserver_phase_at(const fedserver_task *task, uint32_t number);

/** The settings that hold in round `round`. */
fedserver_phase fedserver_phase_of(const fedserver_task *task, uint32_t round);

/** Copy the phase's settings into the task's own members, as those of phase 0. */
void fedserver_phase_begin(const fedserver_phase *phase, fedserver_task *task);

/** Copy the phase's settings into the part of the task that is sent to devices. */
void fedserver_phase_apply(const fedserver_phase *phase, fed_task *wire);

#endif
