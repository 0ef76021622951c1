/* Keeps the log lines of a batch of requests until its transaction has ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/batch_log.h"

#include <string.h>

static void keep(void *user, fed_log_level level, const fed_log_about *about, const char *line) {
    fedserver_batch_log *b = user;
    const char *name = about->task_name != NULL ? about->task_name : "";
    const size_t before = b->lines.len;
    if (b->open && b->lines.status == FED_OK) {
        fed_write_u8(&b->lines, (uint8_t)level);
        fed_write_u64(&b->lines, about->task);
        fed_write_u32(&b->lines, about->round);
        fed_write_bytes(&b->lines, (const uint8_t *)name, strlen(name) + 1);
        fed_write_bytes(&b->lines, (const uint8_t *)line, strlen(line) + 1);
    }
    /* If there is no memory to keep the line, write it at once. */
    if (!b->open || b->lines.status != FED_OK) {
        b->lines.len = before;
        fed_log_pass(b->to, level, about, line);
    }
}

static const char *read_text(fed_reader *r) {
    const char *text = (const char *)r->data + r->pos;
    return (const char *)fed_read_bytes(r, strlen(text) + 1);
}

void fedserver_batch_log_init(fedserver_batch_log *b, const fed_log *to) {
    *b = (fedserver_batch_log){.to = to};
    if (to != NULL && (to->write != NULL || to->write_about != NULL)) {
        b->log = (fed_log){.write_about = keep, .user = b, .level = to->level};
    }
    fed_writer_growing(&b->lines);
}

void fedserver_batch_log_begin(fedserver_batch_log *b) {
    b->open = true;
}

void fedserver_batch_log_end(fedserver_batch_log *b, bool committed) {
    fed_reader r;
    fed_reader_init(&r, b->lines.data, b->lines.len);
    while (fed_reader_left(&r) > 0) {
        const fed_log_level level = (fed_log_level)fed_read_u8(&r);
        fed_log_about about = {.task = fed_read_u64(&r)};
        about.round = fed_read_u32(&r);
        about.task_name = read_text(&r);
        const char *line = read_text(&r);
        if (committed || level >= FED_LOG_WARN) {
            fed_log_pass(b->to, level, &about, line);
        }
    }
    b->open = false;
    b->lines.len = 0;
}

void fedserver_batch_log_free(fedserver_batch_log *b) {
    fedserver_batch_log_end(b, false);
    fed_writer_free(&b->lines);
}
