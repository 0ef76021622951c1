/* The log of a device of the chaos test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "chaos_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chaos.h"
#include "fed/file.h"
#include "fed_test.h"

static uint64_t task_of(const uint8_t *update, size_t len) {
    fed_update head;
    fed_reader r;
    fed_reader_init(&r, update, len);
    assert_fed_ok(fed_update_read(&r, &head));
    return head.task;
}

static void take_record(federation *f, unsigned k, uint8_t kind, fed_reader *r) {
    fed_error err = {0};
    if (kind == CHAOS_LOG_VERSION) {
        uint64_t task = fed_read_u64(r);
        uint32_t version = fed_read_u32(r);
        uint64_t digest = fed_read_u64(r);
        if (f->task != 0 && task != f->task) {
            return;
        }
        federation_report_version(f, k, version, digest);
        assert_true(version < FEDERATION_VERSIONS);
        if (f->digest[version] != 0 && f->digest[version] != digest) {
            federation_break(f, "D5: version %u was announced with two digests", version);
        }
        f->digest[version] = digest;
        return;
    }
    if (kind == CHAOS_LOG_TRAINING) {
        const uint64_t number = fed_read_u64(r);
        federation_report_training(f, k, number, fed_read_u64(r));
        return;
    }
    size_t len = fed_reader_left(r);
    const uint8_t *update = fed_read_bytes(r, len);
    if (f->task != 0 && task_of(update, len) != f->task) {
        return;
    }
    federation_report_update(f, k, update, len);
    if (fed_ledger_add(&f->ledger, k, update, len, &err) != FED_OK) {
        federation_break(f, "D2: %s", err.text);
    }
}

void chaos_log_read(const char *directory, unsigned k, federation *f) {
    char path[400];
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    fed_reader r;
    snprintf(path, sizeof path, "%s/device%u.log", directory, k);
    assert_fed_ok_err(fed_file_read(path, SIZE_MAX / 2, &data, &len, &err));
    fed_reader_init(&r, data, len);
    while (fed_reader_left(&r) > 0) {
        uint8_t kind = fed_read_u8(&r);
        uint32_t size = fed_read_u32(&r);
        const uint8_t *bytes = fed_read_bytes(&r, size);
        assert_non_null(bytes);
        fed_reader record;
        fed_reader_init(&record, bytes, size);
        take_record(f, k, kind, &record);
    }
    free(data);
}

static off_t whole_records(int log) {
    uint8_t head[5]; /* the record's kind, and the length of its bytes */
    struct stat file;
    off_t end = 0;
    while (fstat(log, &file) == 0 && pread(log, head, sizeof head, end) == (ssize_t)sizeof head) {
        fed_reader r;
        fed_reader_init(&r, head + 1, sizeof head - 1);
        const off_t next = end + (off_t)sizeof head + (off_t)fed_read_u32(&r);
        if (next > file.st_size) {
            break;
        }
        end = next;
    }
    return end;
}

int chaos_log_open(const char *path) {
    const int log = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0 && ftruncate(log, whole_records(log)) != 0) {
        close(log);
        return -1;
    }
    return log;
}
