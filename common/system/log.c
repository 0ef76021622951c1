/* Format log lines, and write them to stderr. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { LINE_BYTES = 1024 };

/* Replace control characters. Lines quote texts from outside, which must not forge another line or
 * control a terminal. */
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

/* Is stderr systemd's journal? The variable JOURNAL_STREAM has the journal's device and inode.
 * Both are compared with those of stderr, since a child process with another stderr inherits the
 * variable. */
static bool to_journal(void) {
    struct stat file;
    char *end = NULL;
    const char *stream = getenv("JOURNAL_STREAM");
    const unsigned long long device = stream != NULL ? strtoull(stream, &end, 10) : 0;
    return end != NULL && *end == ':' && fstat(fileno(stderr), &file) == 0 &&
           (unsigned long long)file.st_dev == device &&
           (unsigned long long)file.st_ino == strtoull(end + 1, NULL, 10);
}

void fed_log_stderr(void *user, fed_log_level level, const char *line) {
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    static const int priorities[] = {7, 6, 4, 3}; /* priorities of syslog */
    (void)user;
    if (to_journal()) { /* the journal adds the time by itself */
        fprintf(stderr, "<%d>%s\n", (unsigned)level <= FED_LOG_ERROR ? priorities[level] : 6, line);
        return;
    }
    time_t now = time(NULL);
    struct tm utc = {0};
    char stamp[32] = "";
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    const char *name = (unsigned)level <= FED_LOG_ERROR ? names[level] : "?";
    fprintf(stderr, "%s %s %s\n", stamp, name, line); /* one call: threads' lines do not mix */
}
