/* The SQLite store's lock: one process at a time serves a directory. The operating system releases
 * the lock when the process ends (S6 in docs/durability.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/sqlite_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fed/file.h"

typedef char lock_path[sizeof((fedserver_database *)NULL)->directory + sizeof "/server.lock"];

static int open_lock(const fedserver_database *db, int flags, lock_path path) {
    snprintf(path, sizeof(lock_path), "%s/server.lock", db->directory);
    return fed_file_open_shared(path, flags);
}

fed_status fedserver_sqlite_lock(void *user, fed_error *err) {
    fedserver_database *db = user;
    lock_path path;
    if (db->lock >= 0) {
        return FED_OK;
    }
    db->lock = open_lock(db, O_RDWR | O_CREAT, path);
    /* nobody can serve from a read-only medium, so no lock is needed there */
    if (db->lock < 0) {
        return errno == EROFS
                   ? FED_OK
                   : fed_fail(err, FED_EIO, "%s: can't open the lock file: check its permissions",
                              path);
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(db->lock, F_SETLK, &lock) == 0) {
        return FED_OK;
    }
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const long holder = fcntl(db->lock, F_GETLK, &lock) == 0 ? (long)lock.l_pid : 0;
    close(db->lock);
    db->lock = -1;
    return fed_fail(err, FED_EBUSY,
                    "%s is being served by process %ld already; stop that process first",
                    db->directory, holder);
}

long fedserver_sqlite_holder(void *user) {
    lock_path path;
    const int file = open_lock(user, O_RDONLY, path);
    if (file < 0) {
        return 0;
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool held = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(file);
    return held ? (long)lock.l_pid : 0;
}
