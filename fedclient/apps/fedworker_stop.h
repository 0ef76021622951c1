/* Let all ranks of fedworker train end after the same step when one of them is told to stop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_STOP_H
#define FEDWORKER_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/** What a worker group of one machine says after a signal. */
#define FEDWORKER_TOLD                                                                             \
    "fedworker: told to stop: ends after this step; a second signal ends it now\n"

/** Memory that the processes of this machine share. All functions are safe in any of these
 * processes, and in any thread. */
typedef struct fedworker_stop fedworker_stop;

/** Catch SIGINT and SIGTERM; the same signal again ends the process at once. NULL: out of memory.
 * words  static text that a signal writes to standard error at once; may be "" */
fedworker_stop *fedworker_stop_open(const char *words);
void fedworker_stop_close(fedworker_stop *stop);

/** Tell all ranks to stop, as after a signal. */
void fedworker_stop_tell(fedworker_stop *stop);

/** Return whether fedworker_stop_tell was called, or this process got a signal. */
bool fedworker_stop_told(const fedworker_stop *stop);

/**
 * Return whether a rank may begin this step. Call it before each step. Once a rank has been told to
 * stop, no rank may begin a step that no rank has begun yet, so all ranks end after the same step.
 *
 * all_here  all ranks of the worker group share this memory. false: the result is always true,
 *           because ranks of other machines do not see this memory
 */
bool fedworker_stop_may_begin(fedworker_stop *stop, uint32_t step, bool all_here);

/** Return whether any rank of this machine has begun a step, or was refused one. */
bool fedworker_stop_has_begun(const fedworker_stop *stop);

#endif
