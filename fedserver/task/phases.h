/* The phases of a task: what holds in a round of a task that changes with its rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PHASES_H
#define FEDSERVER_PHASES_H

#include "fedserver/task/task.h"

/*
 * The phase follows from the round, and is stored nowhere. So a restart goes on in the right phase,
 * and an update that was trained in an earlier round is judged by the phase of that round.
 */

/** The number of a round's phase: 0, the phase that the task begins with, to task->phase_count. */
uint32_t fedserver_phase_number(const fedserver_task *task, uint32_t round);

/** What holds in phase `number`. Phase 0 begins with round 1. */
fedserver_phase fedserver_phase_at(const fedserver_task *task, uint32_t number);

/** What holds in round `round`. */
fedserver_phase fedserver_phase_of(const fedserver_task *task, uint32_t round);

/** Copy the phase into the task itself. It becomes the task's phase 0. */
void fedserver_phase_begin(const fedserver_phase *phase, fedserver_task *task);

/** Copy what the phase says into what devices are told. */
void fedserver_phase_apply(const fedserver_phase *phase, fed_task *wire);

#endif
