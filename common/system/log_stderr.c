/* Writes log lines as text to stderr. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/system/log_stderr.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

bool fed_log_to_journal(void) {
    struct stat file;
    char *end = NULL;
    const char *stream = getenv("JOURNAL_STREAM");
    const unsigned long long device = stream != NULL ? strtoull(stream, &end, 10) : 0;
    return end != NULL && *end == ':' && fstat(fileno(stderr), &file) == 0 &&
           (unsigned long long)file.st_dev == device &&
           (unsigned long long)file.st_ino == strtoull(end + 1, NULL, 10);
}

const char *fed_log_level_name(fed_log_level level) {
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    return (unsigned)level <= FED_LOG_ERROR ? names[level] : "?";
}

int fed_log_priority(fed_log_level level) {
    static const int priorities[] = {7, 6, 4, 3};
    return (unsigned)level <= FED_LOG_ERROR ? priorities[level] : 6;
}

void fed_log_stderr(void *user, fed_log_level level, const char *line) {
    (void)user;
    if (fed_log_to_journal()) { /* the journal adds the time by itself */
        fprintf(stderr, "<%d>%s\n", fed_log_priority(level), line);
        return;
    }
    time_t now = time(NULL);
    struct tm utc = {0};
    char stamp[32] = "";
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    /* one call: threads' lines do not mix */
    fprintf(stderr, "%s %s %s\n", stamp, fed_log_level_name(level), line);
}
