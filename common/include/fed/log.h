/* Logging through a callback: libraries never print. */
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

/** Where a library's lines go. Pass it by pointer; NULL, or a NULL write, is silence. */
typedef struct fed_log {
    /** One line, no newline. Called from any thread of the library's user; must not call back into
     * the library. */
    void (*write)(void *user, fed_log_level level, const char *line);
    void *user;
    fed_log_level level; /* lines below it are not even formatted */
} fed_log;

void fed_logf(const fed_log *log, fed_log_level level, const char *format, ...) FED_PRINTF(3, 4);

/** A ready-made sink for programs: "2026-01-31T12:00:00Z WARN text" to stderr or, where that is
 * systemd's journal, "<4>text", whose number is the priority. Use as .write. */
void fed_log_stderr(void *user, fed_log_level level, const char *line);

FED_API_END

#endif
