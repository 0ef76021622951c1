/* Appends to segment files, syncs and reads them, and finds those of a directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/segment.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"

fed_status fedserver_segment_open(fedserver_segment *segment, const char *directory, uint64_t task,
                                  uint32_t round, uint64_t end, bool make, fed_error *err) {
    fedserver_segment opened = {
        .task = task, .round = round, .end = end, .fresh = make && end == 0};
    snprintf(opened.path, sizeof opened.path, "%s/" FEDSERVER_SEGMENT_NAME, directory, task, round);
    opened.fd = fed_file_open_shared(opened.path, make ? O_RDWR | O_CREAT : O_RDWR);
    if (opened.fd < 0) {
        return fed_file_fail(err, "open", opened.path);
    }
    /* S9 in docs/durability.md: appended bytes are synced before another file is opened. */
    assert(segment->fd < 0 || !segment->appended);
    fedserver_segment_close(segment);
    *segment = opened;
    return FED_OK;
}

void fedserver_segment_close(fedserver_segment *segment) {
    if (segment->fd >= 0) {
        close(segment->fd);
    }
    *segment = (fedserver_segment){.fd = -1};
}

static fed_status fail_write(fed_error *err, const char *verb, const char *path) {
    fed_status status = fed_file_fail(err, verb, path);
    return status == FED_ENOSPC ? fed_fail(err, status, FEDSERVER_DISK_FULL, path) : status;
}

fed_status fedserver_segment_append(fedserver_segment *segment, const uint8_t *body, size_t len,
                                    uint64_t *start, fed_error *err) {
    assert(segment->fd >= 0); /* S9 in docs/durability.md: the file is open. */
    for (size_t done = 0; done < len;) {
        ssize_t put = pwrite(segment->fd, body + done, len - done, (off_t)(segment->end + done));
        if (put < 0 && errno != EINTR) {
            return fail_write(err, "write", segment->path);
        }
        done += put > 0 ? (size_t)put : 0;
    }
    *start = segment->end;
    segment->end += len;
    segment->appended = true;
    return FED_OK;
}

fed_status fedserver_segment_sync(fedserver_segment *segment, fed_error *err) {
    if (segment->fd < 0 || !segment->appended) {
        return FED_OK;
    }
    if (fdatasync(segment->fd) != 0) {
        return fail_write(err, "sync", segment->path);
    }
    if (segment->fresh) {
        FED_TRY(fed_name_sync(segment->path, err));
    }
    segment->appended = segment->fresh = false;
    return FED_OK;
}

fed_status fedserver_segment_read(const fedserver_segment *segment, uint64_t start, size_t len,
                                  uint8_t *dst, fed_error *err) {
    assert(segment->fd >= 0);
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(segment->fd, dst + done, len - done, (off_t)(start + done));
        if (got < 0 && errno != EINTR) {
            return fed_file_fail(err, "read", segment->path);
        }
        if (got == 0) {
            return fed_fail(err, FED_EFORMAT, "%s is cut off: bytes of updates are missing",
                            segment->path);
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return FED_OK;
}

/* Read a segment file's name. Returns false for any other name: other files stay untouched. */
static bool parse_name(const char *name, uint64_t *task, uint32_t *round) {
    static const char prefix[] = "updates-";
    char again[64];
    char *end;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    *task = strtoull(name + sizeof prefix - 1, &end, 10);
    *round = *end == '-' ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
    snprintf(again, sizeof again, FEDSERVER_SEGMENT_NAME, *task, *round);
    return strcmp(again, name) == 0;
}

fed_status fedserver_segment_each(const char *directory, fedserver_segment_visit visit, void *user,
                                  fed_error *err) {
    DIR *folder = opendir(directory);
    if (folder == NULL) {
        return fed_file_fail(err, "list", directory);
    }
    fed_status status = FED_OK;
    for (struct dirent *entry; status == FED_OK && (entry = readdir(folder)) != NULL;) {
        char path[sizeof((fedserver_segment){0}.path)];
        uint64_t task;
        uint32_t round;
        struct stat info;
        if (!parse_name(entry->d_name, &task, &round)) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        status = stat(path, &info) != 0
                     ? fed_file_fail(err, "look at", path)
                     : visit(user, path, task, round, (uint64_t)info.st_size, err);
    }
    closedir(folder);
    return status;
}
