/* Format log lines, and pass them on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_BYTES = 1024 };

/* Replace control characters: a quoted text must not forge a line or control a terminal. */
static void blank_controls(char *line) {
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < ' ' || *line == 0x7f) {
            *line = ' ';
        }
    }
}

void fed_log_pass(const fed_log *log, fed_log_level level, const fed_log_about *about,
                  const char *line) {
    if (log->write_about != NULL) {
        const fed_log_about nothing = {0};
        log->write_about(log->user, level, about != NULL ? about : &nothing, line);
    } else {
        log->write(log->user, level, line);
    }
}

static void say(const fed_log *log, fed_log_level level, const fed_log_about *about,
                const char *format, va_list args) {
    if (log == NULL || (log->write == NULL && log->write_about == NULL) || level < log->level) {
        return;
    }
    char line[LINE_BYTES];
    vsnprintf(line, sizeof line, format, args);
    blank_controls(line);
    fed_log_pass(log, level, about, line);
}

void fed_logf(const fed_log *log, fed_log_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(log, level, NULL, format, args);
    va_end(args);
}

void fed_logf_about(const fed_log *log, fed_log_level level, const fed_log_about *about,
                    const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(log, level, about, format, args);
    va_end(args);
}
