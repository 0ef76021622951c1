/* fedworker train that is told to stop: all ranks end after the same step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_STOP_H
#define FEDWORKER_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/** Memory that the processes of this machine share. All functions are safe in any of them, and in
 * any thread. */
typedef struct fedworker_stop fedworker_stop;

/** Catch SIGINT and SIGTERM; a second signal ends the process at once. NULL: out of memory. */
fedworker_stop *fedworker_stop_open(void);
void fedworker_stop_close(fedworker_stop *stop);

/** Stop, as after a signal. */
void fedworker_stop_tell(fedworker_stop *stop);

/** Has one of these processes been told to stop, or this process got a signal? */
bool fedworker_stop_told(const fedworker_stop *stop);

/**
 * A rank asks this before each step. Once a rank has been told to stop, no rank begins a step that
 * no rank has begun yet, so all ranks end after the same step.
 *
 * all_here  all ranks of the worker group share this memory. false: the answer is always true, as
 *           ranks of other machines do not see it
 */
bool fedworker_stop_may_begin(fedworker_stop *stop, uint32_t step, bool all_here);

/** Has any rank of this machine begun a step? */
bool fedworker_stop_has_begun(const fedworker_stop *stop);

#endif
