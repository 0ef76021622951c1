/* Logging through a callback, since libraries never print. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LOG_H
#define FED_LOG_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/status.h"

FED_API_BEGIN

typedef enum fed_log_level {
    FED_LOG_DEBUG = 0,
    FED_LOG_INFO = 1,
    FED_LOG_WARN = 2,
    FED_LOG_ERROR = 3
} fed_log_level;

/** The task and the round that a line is about. The line's text names them, too. */
typedef struct fed_log_about {
    uint64_t task;         /* 0: no task */
    const char *task_name; /* NULL or "": unknown */
    uint32_t round;        /* 0: no round */
} fed_log_about;

/** Receives a library's log lines; pass its address. With NULL, or if both functions are NULL,
 * nothing is logged. */
typedef struct fed_log {
    /** Called with one line, without a newline, in any thread that calls the library. It must not
     * call the library. */
    void (*write)(void *user, fed_log_level level, const char *line);
    void *user;
    fed_log_level level; /* lines below this level are not formatted */
    /** NULL, or called instead of write. about is never NULL, and is valid during the call. */
    void (*write_about)(void *user, fed_log_level level, const fed_log_about *about,
                        const char *line);
} fed_log;

void fed_logf(const fed_log *log, fed_log_level level, const char *format, ...) FED_PRINTF(3, 4);

/** As fed_logf, for a line about a task. about: read during the call; NULL: about no task. */
void fed_logf_about(const fed_log *log, fed_log_level level, const fed_log_about *about,
                    const char *format, ...) FED_PRINTF(4, 5);

/** Pass on a line that a log's function has received, whatever its level is. */
void fed_log_pass(const fed_log *log, fed_log_level level, const fed_log_about *about,
                  const char *line);

/** A write callback for programs. It writes "2026-01-31T12:00:00Z WARN text" to stderr. If stderr
 * is systemd's journal, it writes "<4>text" with the syslog priority. */
void fed_log_stderr(void *user, fed_log_level level, const char *line);

/** A write_about callback for programs. It writes a JSON object on one line to stderr: its keys are
 * time, level, part if user is a text, task, task_name and round where they are known, and message.
 * Bytes that are no UTF-8 become U+FFFD. If stderr is systemd's journal, "<4>" comes before it.
 *
 * user  NULL, or a const char *, such as the name of the process, which must stay valid
 */
void fed_log_json(void *user, fed_log_level level, const fed_log_about *about, const char *line);

/** Set the callbacks and user of a program's log by the value of its option --log: "text" or
 * "json". part: see fed_log_json. FED_EINVAL: another word. */
fed_status fed_log_choose(const char *word, const char *part, fed_log *log,
                          fed_error *err) FED_CHECKED;

FED_API_END

#endif
