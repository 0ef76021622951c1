/* Show the progress of long work: one line on a terminal, rewritten in place. For programs
 * only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PROGRESS_H
#define FED_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

typedef struct fed_progress {
    bool terminal;
    int64_t start_ms, shown_ms;
    double start_share;
} fed_progress;

/** Begin. share is the fraction of the work that is done already, 0 to 1. If standard error is not
 * a terminal, nothing is shown. */
void fed_progress_open(fed_progress *progress, double share);

/** Show a bar for the fraction that is done, a few words, and the time left. A call within a tenth
 * of a second after the last one that showed something shows nothing. */
void fed_progress_show(fed_progress *progress, double share, const char *format, ...)
    FED_PRINTF(3, 4);

/** Remove the line from the terminal, so that the program can write other lines. The next
 * fed_progress_show writes it again. */
void fed_progress_wipe(fed_progress *progress);

FED_API_END

#endif
