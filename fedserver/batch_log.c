/* Keeps the log lines of a batch of requests until its transaction has ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/batch_log.h"

#include <string.h>

static void keep(void *user, fed_log_level level, const char *line) {
    fedserver_batch_log *b = user;
    if (b->open && b->lines.status == FED_OK) {
        fed_write_u8(&b->lines, (uint8_t)level);
        fed_write_bytes(&b->lines, (const uint8_t *)line, strlen(line) + 1);
    }
    /* If there is no memory to keep the line, write it at once. */
    if (!b->open || b->lines.status != FED_OK) {
        b->to->write(b->to->user, level, line);
    }
}

void fedserver_batch_log_init(fedserver_batch_log *b, const fed_log *to) {
    *b = (fedserver_batch_log){.to = to};
    if (to != NULL && to->write != NULL) {
        b->log = (fed_log){.write = keep, .user = b, .level = to->level};
    }
    fed_writer_growing(&b->lines);
}

void fedserver_batch_log_begin(fedserver_batch_log *b) {
    b->open = true;
}

void fedserver_batch_log_end(fedserver_batch_log *b, bool committed) {
    size_t text_len = 0;
    for (size_t at = 0; at + 1 < b->lines.len; at += 1 + text_len + 1) {
        const fed_log_level level = (fed_log_level)b->lines.data[at];
        const char *text = (const char *)b->lines.data + at + 1;
        text_len = strlen(text);
        if (committed || level >= FED_LOG_WARN) {
            b->to->write(b->to->user, level, text);
        }
    }
    b->open = false;
    b->lines.len = 0;
}

void fedserver_batch_log_free(fedserver_batch_log *b) {
    fedserver_batch_log_end(b, false);
    fed_writer_free(&b->lines);
}
