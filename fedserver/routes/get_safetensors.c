/* GET /model.safetensors?task=N: the newest model of a task, for operators. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/audit_log.h"
#include "fedserver/operator/task_export.h"
#include "fedserver/paths.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

static fed_status read_whole(const char *path, fed_writer *w, fed_error *err) {
    struct stat about;
    /* Two users may share the folder: a link could lead to what only this process may read. */
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (file == NULL || fstat(fileno(file), &about) != 0) {
        if (file != NULL) {
            fclose(file);
        }
        return fed_file_fail(err, "read", path);
    }
    const size_t size = (size_t)about.st_size;
    uint8_t *room = fed_writer_reserve(w, size);
    const bool whole = room != NULL && fread(room, 1, size, file) == size;
    fclose(file);
    if (room == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a model of %zu bytes", size);
    }
    if (!whole) {
        return fed_fail(err, FED_EIO, "can't read all %zu bytes of %s", size, path);
    }
    fed_writer_advance(w, size);
    return FED_OK;
}

fed_status fedserver_get_safetensors(fedserver *server, const fedserver_call *call,
                                     fedserver_response *response, fed_error *err) {
    uint64_t task = 0;
    char path[1024], name[40];
    fed_error why = {0};
    fedserver_written written;
    (void)fedserver_query_number(call->request->query, "task", UINT64_MAX / 2, &task);
    snprintf(name, sizeof name, "download-%ld.safetensors", (long)getpid());
    fedserver_path(server->directory, name, path, sizeof path);
    /* A visitor's request must not stop the coordinator, so a failure becomes an answer. */
    const fed_status made = fedserver_model_write(server, task, path, 0600, &written, &why);
    if (made != FED_OK) {
        return made == FED_ENOTFOUND
                   ? fedserver_answer_error(response, err, 404, "task_unknown",
                                            "there is no such task, or none has started yet")
                   : fedserver_answer_error(response, err, 503, "busy", "%s", why.text);
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_status status = read_whole(path, &w, err);
    (void)unlink(path);
    if (status == FED_OK) {
        status = fedserver_audit(server, FED_LOG_INFO, call->now_ms, "model_downloaded", err,
                                 "task=%llu name=\"%s\" version=%u",
                                 (unsigned long long)written.task, written.name, written.version);
    }
    if (status != FED_OK) {
        fed_writer_free(&w);
        return status;
    }
    snprintf(response->file_name, sizeof response->file_name, "model.safetensors");
    return fedserver_answer(response, 200, "application/octet-stream", &w, err);
}
