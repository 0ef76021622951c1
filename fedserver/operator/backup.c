/* Copies a coordinator while it serves, and restores it from the copy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/audit_log.h"
#include "fedserver/paths.h"
#include "fedserver/server.h"
#include "fedserver/stores/stores.h"

enum { PATH_SIZE = 1024, PEM_MOST = 64 * 1024 };

static fed_status copy_file(const char *from, const char *to, const char *name, unsigned mode,
                            fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *data;
    size_t len;
    fedserver_path(from, name, path, sizeof path);
    FED_TRY(fed_file_read(path, PEM_MOST, &data, &len, err));
    fedserver_path(to, name, path, sizeof path);
    fed_status status = fed_file_replace(path, data, len, mode, err);
    free(data);
    return status;
}

/* Make the copy's directory, but not its parents: a missing parent may be a disk that is not
 * mounted. */
static fed_status make_directory(const char *directory, fed_error *err) {
    char parent[PATH_SIZE];
    size_t len = strlen(directory);
    struct stat info;
    if (len >= sizeof parent) {
        return fed_fail(err, FED_EINVAL, "the path of the copy is too long: choose a shorter one");
    }
    while (len > 1 && directory[len - 1] == '/') {
        len--;
    }
    while (len > 0 && directory[len - 1] != '/') {
        len--;
    }
    snprintf(parent, sizeof parent, "%.*s", (int)len, len > 0 ? directory : "");
    if (len > 0 && stat(parent, &info) != 0 && errno == ENOENT) {
        return fed_fail(err, FED_ENOTFOUND,
                        "there is no folder %s for the copy: mount its disk, or make the folder",
                        parent);
    }
    return fed_dir_make(directory, 0700, err);
}

/* Copy the store last: an incomplete copy is then no coordinator (S7 in docs/durability.md). */
static fed_status copy_coordinator(const fedserver_store *store, const char *from, const char *to,
                                   fed_error *err) {
    const fedserver_store_choice choice = {.store = store};
    fedserver_store_choice present;
    char front[PATH_SIZE];
    if (store->copy == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "the store %s makes no copies of itself: back it up by its own means, and "
                        "the directory %s with it",
                        store->name, from);
    }
    FED_TRY(fedserver_store_read(to, &present, err));
    if (fedserver_store_absent(to, &present, err) == FED_EEXIST) {
        return fed_fail(err, FED_EEXIST,
                        "%s holds a coordinator already; move it away, or choose another directory",
                        to);
    }
    FED_TRY(make_directory(to, err));
    fed_dir_tidy(to);
    fedserver_store_unmark(to);
    FED_TRY(copy_file(from, to, "ca.key", 0600, err));
    FED_TRY(copy_file(from, to, "ca.pem", 0644, err));
    FED_TRY(copy_file(from, to, "server.key", 0600, err));
    FED_TRY(copy_file(from, to, "server.pem", 0644, err));
    fedserver_path(from, "front.pem", front, sizeof front);
    if (access(front, F_OK) == 0) {
        FED_TRY(copy_file(from, to, "front.key", 0600, err));
        FED_TRY(copy_file(from, to, "front.pem", 0644, err));
    }
    FED_TRY(fedserver_store_write(to, &choice, err));
    return store->copy(from, to, err);
}

fed_status fedserver_backup(fedserver *server, const char *directory, fed_error *err) {
    return copy_coordinator(server->store, server->directory, directory, err);
}

fed_status fedserver_restore(const char *backup, const char *directory, fed_error *err) {
    fedserver_store_choice choice;
    fed_error absent = {0};
    const fed_status status = fedserver_store_present(backup, &choice, &absent);
    if (status == FED_ENOTFOUND) {
        return fed_fail(err, status,
                        "%s holds no coordinator, or not all of one: give a directory that "
                        "`fedserver backup` made",
                        backup);
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    return copy_coordinator(choice.store, backup, directory, err);
}

static fed_status note_restored(fedserver *server, int64_t now_ms, fed_error *err) {
    FED_TRY(server->store->lock(server->db, err));
    FED_TRY(server->store->copied(server->db, err));
    return fedserver_audit(server, FED_LOG_WARN, now_ms, "restored", err, "store=%s",
                           server->store->name);
}

fed_status fedserver_restored(fedserver *server, int64_t now_ms, fed_error *err) {
    return fedserver_finish(server, note_restored(server, now_ms, err), err);
}
