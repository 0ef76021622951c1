/* Writes log lines as JSON objects to stderr (RFC 8259), for programs that collect logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/system/log_stderr.h"
#include "fed/bytes.h"
#include "fed/clock.h"
#include "fed/utf8.h"

/* Two processes may write to one pipe. One write of at most PIPE_BUF bytes does not mix with
 * another process's. */
enum { MOST = 4096, TAIL = 16, SHORT = MOST / 4 };

/* Return the length of the character at text in bytes, or 0 if it is not well-formed UTF-8. */
static size_t character(const char *text) {
    enum { BYTES = 4 };
    const size_t left = strnlen(text, BYTES);
    for (size_t len = 1; len <= left; len++) {
        if (fed_utf8_valid_len((const uint8_t *)text, len) == len) {
            return len;
        }
    }
    return 0;
}

/* Put a string in quotes. Past `most` bytes of the line it is cut between two characters. */
static void put_string(fed_writer *o, const char *key, const char *text, size_t most) {
    fed_write_printf(o, ",\"%s\":\"", key);
    while (*text != '\0' && o->len < most) {
        const size_t len = character(text);
        const unsigned char first = (unsigned char)*text;
        if (len == 0) {
            fed_write_printf(o, "\\ufffd");
        } else if (first < ' ' || first == 0x7f) {
            fed_write_printf(o, "\\u%04x", first);
        } else {
            fed_write_printf(o, "%s%.*s", first == '"' || first == '\\' ? "\\" : "", (int)len,
                             text);
        }
        text += len > 0 ? len : 1;
    }
    fed_write_printf(o, "\"");
}

static void put_time(fed_writer *o) {
    const int64_t now_ms = fed_clock_unix_ms();
    const time_t now = (time_t)(now_ms / 1000);
    struct tm utc = {0};
    char stamp[32] = "";
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    }
    fed_write_printf(o, "{\"time\":\"%s.%03dZ\"", stamp, (int)(now_ms % 1000));
}

void fed_log_json(void *user, fed_log_level level, const fed_log_about *about, const char *line) {
    const char *part = user;
    fed_writer o;
    fed_writer_growing(&o);
    if (fed_log_to_journal()) {
        fed_write_printf(&o, "<%d>", fed_log_priority(level));
    }
    put_time(&o);
    fed_write_printf(&o, ",\"level\":\"%s\"", fed_log_level_name(level));
    if (part != NULL) {
        put_string(&o, "part", part, SHORT);
    }
    if (about->task != 0) {
        fed_write_printf(&o, ",\"task\":%" PRIu64, about->task);
    }
    if (about->task_name != NULL && about->task_name[0] != '\0') {
        put_string(&o, "task_name", about->task_name, 2 * SHORT);
    }
    if (about->round != 0) {
        fed_write_printf(&o, ",\"round\":%" PRIu32, about->round);
    }
    put_string(&o, "message", line, MOST - TAIL);
    fed_write_printf(&o, "}\n");
    if (o.status == FED_OK) { /* without memory there is no line */
        fwrite(o.data, 1, o.len, stderr);
    }
    fed_writer_free(&o);
}

fed_status fed_log_choose(const char *word, const char *part, fed_log *log, fed_error *err) {
    const bool json = strcmp(word, "json") == 0;
    if (!json && strcmp(word, "text") != 0) {
        return fed_fail(err, FED_EINVAL, "--log is text or json, not %.60s", word);
    }
    log->write = json ? NULL : fed_log_stderr;
    log->write_about = json ? fed_log_json : NULL;
    log->user = (void *)(uintptr_t)part;
    return FED_OK;
}
