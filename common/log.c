/* Log lines: formatting, and a sink that writes to stderr. */
#include "fed/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { LINE_BYTES = 1024 };

/* Texts from outside get into lines: they must not forge another line or steer a terminal. */
static void blank_controls(char *line) {
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < ' ' || *line == 0x7f) {
            *line = ' ';
        }
    }
}

void fed_logf(const fed_log *log, fed_log_level level, const char *format, ...) {
    if (log == NULL || log->write == NULL || level < log->level) {
        return;
    }
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    blank_controls(line);
    log->write(log->user, level, line);
}

void fed_log_stderr(void *user, fed_log_level level, const char *line) {
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    (void)user;
    time_t now = time(NULL);
    struct tm utc = {0};
    char stamp[32] = "";
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    const char *name = (unsigned)level <= FED_LOG_ERROR ? names[level] : "?";
    fprintf(stderr, "%s %s %s\n", stamp, name, line); /* one call: lines of threads do not mix */
}
