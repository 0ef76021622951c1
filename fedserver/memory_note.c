/* Keeps the memory limit of the tasks in a file of the directory: bytes, as text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/memory_note.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/paths.h"

enum { PATH_SIZE = 1024 };
static const char file_name[] = "task-memory";

fed_status fedserver_memory_note_read(const char *directory, uint64_t *bytes, fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *text = NULL;
    size_t len = 0;
    *bytes = 0;
    fedserver_path(directory, file_name, path, sizeof path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return FED_OK;
    }
    FED_TRY(fed_file_read(path, 32, &text, &len, err));
    *bytes = strtoull((const char *)text, NULL, 10);
    free(text);
    return FED_OK;
}

fed_status fedserver_memory_note_write(const char *directory, uint64_t bytes, fed_error *err) {
    char path[PATH_SIZE], text[32];
    uint64_t noted = 0;
    FED_TRY(fedserver_memory_note_read(directory, &noted, err));
    if (noted == bytes) {
        return FED_OK;
    }
    fedserver_path(directory, file_name, path, sizeof path);
    if (bytes == 0) {
        return unlink(path) == 0 ? FED_OK : fed_file_fail(err, "remove", path);
    }
    const int len = snprintf(text, sizeof text, "%llu\n", (unsigned long long)bytes);
    return fed_file_replace(path, text, (size_t)len, FED_FILE_SHARED, err);
}
