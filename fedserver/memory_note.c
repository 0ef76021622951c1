/* Keeps numbers as text in files of the directory: the tasks' memory in bytes, the front's port. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/memory_note.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/paths.h"

enum { PATH_SIZE = 1024 };
static const char memory[] = "task-memory", front_port[] = "front-port";

/* *number is 0 if there is no such note. */
static fed_status read_note(const char *directory, const char *name, uint64_t *number,
                            fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *text = NULL;
    size_t len = 0;
    *number = 0;
    fedserver_path(directory, name, path, sizeof path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return FED_OK;
    }
    FED_TRY(fed_file_read(path, 32, &text, &len, err));
    *number = strtoull((const char *)text, NULL, 10);
    free(text);
    return FED_OK;
}

static fed_status write_note(const char *directory, const char *name, uint64_t number,
                             fed_error *err) {
    char path[PATH_SIZE], text[32];
    uint64_t noted = 0;
    FED_TRY(read_note(directory, name, &noted, err));
    if (noted == number) {
        return FED_OK;
    }
    fedserver_path(directory, name, path, sizeof path);
    if (number == 0) {
        return unlink(path) == 0 ? FED_OK : fed_file_fail(err, "remove", path);
    }
    const int len = snprintf(text, sizeof text, "%llu\n", (unsigned long long)number);
    return fed_file_replace(path, text, (size_t)len, FED_FILE_SHARED, err);
}

fed_status fedserver_memory_note_read(const char *directory, uint64_t *bytes, fed_error *err) {
    return read_note(directory, memory, bytes, err);
}

fed_status fedserver_memory_note_write(const char *directory, uint64_t bytes, fed_error *err) {
    return write_note(directory, memory, bytes, err);
}

uint16_t fedserver_front_note_read(const char *directory) {
    fed_error unread = {0};
    uint64_t port = 0;
    return read_note(directory, front_port, &port, &unread) == FED_OK && port <= UINT16_MAX
               ? (uint16_t)port
               : 0;
}

fed_status fedserver_front_note_write(const char *directory, uint16_t port, fed_error *err) {
    return write_note(directory, front_port, port, err);
}
