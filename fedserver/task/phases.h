/* The phases of a task: what holds in a round, where the task changes it on the way. */
#ifndef FEDSERVER_PHASES_H
#define FEDSERVER_PHASES_H

#include "fedserver/task/task.h"

/*
 * Nothing remembers which phase a task is in: it follows from the round. So a restart goes on in
 * the right one, and an update that comes from an earlier round is judged by that round's phase.
 */

/** In which phase a round is, from 0, which is the task's own, to task->phase_count. */
uint32_t fedserver_phase_number(const fedserver_task *task, uint32_t round);

/** What holds in a phase; phase 0 begins with round 1. */
fedserver_phase fedserver_phase_at(const fedserver_task *task, uint32_t number);

/** What holds in a round. */
fedserver_phase fedserver_phase_of(const fedserver_task *task, uint32_t round);

/** Put it into the task itself, whose phase 0 it is from then on. */
void fedserver_phase_begin(const fedserver_phase *phase, fedserver_task *task);

/** Put it into what devices are told. */
void fedserver_phase_apply(const fedserver_phase *phase, fed_task *wire);

#endif
