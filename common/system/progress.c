/* Show one line on a terminal with the progress of long work. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "fed/clock.h"

enum { BAR = 20, EVERY_MS = 100 };

void fed_progress_open(fed_progress *progress, double share) {
    *progress = (fed_progress){.terminal = isatty(STDERR_FILENO) != 0,
                               .start_ms = fed_clock_monotonic_ms(),
                               .start_share = share};
}

static void print_time(int64_t s) {
    if (s < 100) {
        fprintf(stderr, ", %" PRId64 " s left", s);
    } else if (s < 6000) {
        fprintf(stderr, ", %" PRId64 " min left", (s + 30) / 60);
    } else {
        fprintf(stderr, ", %" PRId64 " h %" PRId64 " min left", s / 3600, s / 60 % 60);
    }
}

void fed_progress_show(fed_progress *progress, double share, const char *format, ...) {
    int64_t now = fed_clock_monotonic_ms();
    if (!progress->terminal || now - progress->shown_ms < EVERY_MS) {
        return;
    }
    progress->shown_ms = now;
    int filled = (int)(BAR * share);
    fprintf(stderr, "\r\033[K[%.*s%*s] %2.0f %%  ", filled, "####################", BAR - filled,
            "", 100 * share);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    double did = share - progress->start_share;
    if (did > 0) {
        print_time((int64_t)((double)(now - progress->start_ms) * (1 - share) / did / 1000));
    }
    fflush(stderr);
}

void fed_progress_wipe(fed_progress *progress) {
    if (progress->terminal && progress->shown_ms != 0) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->shown_ms = 0;
    }
}
