/* How far long work is: a line at a terminal, rewritten in place. For programs. */
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

/** Begin at a share of the work that is done already, 0 to 1. Where standard error is no terminal,
 * nothing is ever shown. */
void fed_progress_open(fed_progress *progress, double share);

/** Show a bar for the share that is done, a few words, and the time that is left. Calls that follow
 * within a tenth of a second are left out. */
void fed_progress_show(fed_progress *progress, double share, const char *format, ...)
    FED_PRINTF(3, 4);

/** Wipe the line, so that others can be written; the next show brings it back. */
void fed_progress_wipe(fed_progress *progress);

FED_API_END

#endif
