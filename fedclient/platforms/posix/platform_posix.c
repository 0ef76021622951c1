/* The POSIX platform: each key has a file in a directory, which one process locks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedclient/platform.h"

enum { PATH_SIZE = 1024 };

typedef struct posix_store {
    int lock;
    pid_t owner; /* the process that has locked the directory */
    char directory[PATH_SIZE - 64];
} posix_store;

/** Keys come from the library and the program, never from the network. */
static fed_status key_path(const posix_store *store, const char *key, char path[PATH_SIZE],
                           fed_error *err) {
    if (key[0] == '\0' || key[0] == '.' || strchr(key, '/') != NULL || strlen(key) > 48) {
        return fed_fail(err, FED_EINVAL, "\"%.60s\" can't be the name of a stored value", key);
    }
    snprintf(path, PATH_SIZE, "%s/%s", store->directory, key);
    return FED_OK;
}

static int64_t posix_unix_ms(void *user) {
    (void)user;
    return fed_clock_unix_ms();
}

static int64_t posix_monotonic_ms(void *user) {
    (void)user;
    return fed_clock_monotonic_ms();
}

static fed_status posix_put(void *user, const char *key, const void *data, size_t len,
                            fed_error *err) {
    char path[PATH_SIZE];
    FED_TRY(key_path(user, key, path, err));
    return fed_file_replace(path, data, len, 0600, err);
}

static fed_status posix_get(void *user, const char *key, uint8_t **data, size_t *len,
                            fed_error *err) {
    char path[PATH_SIZE];
    FED_TRY(key_path(user, key, path, err));
    return fed_file_read(path, SIZE_MAX / 2, data, len, err);
}

static fed_status posix_drop(void *user, const char *key, fed_error *err) {
    const posix_store *store = user;
    char path[PATH_SIZE];
    FED_TRY(key_path(store, key, path, err));
    if (unlink(path) != 0 && errno != ENOENT) {
        return fed_fail(err, FED_EIO, "%s: can't remove this file: %s", path, strerror(errno));
    }
    int directory = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = directory >= 0 && fsync(directory) == 0;
    int why = errno;
    if (directory >= 0) {
        close(directory);
    }
    return synced ? FED_OK
                  : fed_fail(err, FED_EIO, "%s: can't sync this directory: %s", store->directory,
                             strerror(why));
}

static fed_status lock_directory(posix_store *store, fed_error *err) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/.lock", store->directory);
    store->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock < 0) {
        return fed_fail(err, FED_EIO, "%s: can't open this lock file: %s", path, strerror(errno));
    }
    store->owner = getpid();
    if (flock(store->lock, LOCK_EX | LOCK_NB) == 0) {
        return FED_OK;
    }
    int why = errno;
    close(store->lock);
    if (why == EWOULDBLOCK) {
        return fed_fail(err, FED_EBUSY,
                        "%s is in use by another client: stop it, or choose another"
                        " state directory",
                        store->directory);
    }
    return fed_fail(err, FED_EIO, "%s: can't lock this file: %s", path, strerror(why));
}

fed_status fedclient_platform_posix_open(const char *directory, fedclient_platform *platform,
                                         fed_error *err) {
    posix_store *store = calloc(1, sizeof *store);
    FED_REQUIRE(store != NULL, FED_ENOMEM);
    fed_status status = FED_OK;
    if (strlen(directory) >= sizeof store->directory) {
        status = fed_fail(err, FED_EINVAL, "the path of the state directory is too long: %.80s...",
                          directory);
    } else {
        memcpy(store->directory, directory, strlen(directory) + 1);
        status = fed_dir_make(directory, 0700, err);
    }
    if (status == FED_OK) {
        status = lock_directory(store, err);
    }
    if (status != FED_OK) {
        free(store);
        return status;
    }
    fed_dir_tidy(directory); /* remove temporary files of interrupted puts */
    *platform = (fedclient_platform){.user = store,
                                     .unix_ms = posix_unix_ms,
                                     .monotonic_ms = posix_monotonic_ms,
                                     .put = posix_put,
                                     .get = posix_get,
                                     .drop = posix_drop};
    return FED_OK;
}

void fedclient_platform_posix_close(fedclient_platform *platform) {
    posix_store *store = platform->user;
    if (store != NULL) {
        /* A child that was forked meanwhile, such as a worker that loads data, has the descriptor
         * too, and closing one of the two would leave the lock. */
        if (store->owner == getpid()) {
            (void)flock(store->lock, LOCK_UN);
        }
        close(store->lock);
        free(store);
    }
    *platform = (fedclient_platform){0};
}
