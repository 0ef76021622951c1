/* Logging through a callback, since libraries never print. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LOG_H
#define FED_LOG_H

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

typedef enum fed_log_level {
    FED_LOG_DEBUG = 0,
    FED_LOG_INFO = 1,
    FED_LOG_WARN = 2,
    FED_LOG_ERROR = 3
} fed_log_level;

/** Receives a library's log lines; pass its address. With NULL, or if write is NULL, nothing is
 * logged. */
typedef struct fed_log {
    /** Called with one line, without a newline, in any thread that calls the library. It must not
     * call the library. */
    void (*write)(void *user, fed_log_level level, const char *line);
    void *user;
    fed_log_level level; /* lines below this level are not formatted */
} fed_log;

void fed_logf(const fed_log *log, fed_log_level level, const char *format, ...) FED_PRINTF(3, 4);

/** A write callback for programs. It writes "2026-01-31T12:00:00Z WARN text" to stderr. If stderr
 * is systemd's journal, it writes "<4>text" with the syslog priority. */
void fed_log_stderr(void *user, fed_log_level level, const char *line);

FED_API_END

#endif
