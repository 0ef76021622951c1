/* The replacements of the system calls that change files (fault_disk.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: syscall */
#include "tests/support/faults/fault_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/support/faults/fault_image.h"

static fault_plan *plan; /* NULL: no directory is watched */
static char root[PATH_MAX];
static size_t root_len;

/* Held during each call for a watched file. The thread that ends the process never releases the
 * lock. */
static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

void *fault_shared_new(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void fault_shared_free(void *shared, size_t size) {
    (void)munmap(shared, size);
}

const char *fault_kind_name(fault_kind kind) {
    static const char *const names[FAULT_KINDS] = {"calm",       "killed before", "killed after",
                                                   "torn write", "power cut",     "power cut, torn",
                                                   "I/O error",  "disk full"};
    return names[kind];
}

static bool loses_pages(void) {
    return plan->kind == FAULT_POWER || plan->kind == FAULT_POWER_TORN;
}

void fault_disk_watch(const char *directory, fault_plan *p) {
    plan = p;
    root_len = strlen(directory);
    snprintf(root, sizeof root, "%s", directory);
    if (loses_pages()) {
        fault_image_open(root);
    }
}

static void die(void) {
    (void)kill(getpid(), SIGKILL);
    _exit(137);
}

/* Simulate a power cut, and end the process. The caller has the lock. */
static void cut(void) {
    fault_image_restore(plan->kind == FAULT_POWER_TORN, plan->seed);
    die();
}

void fault_disk_cut(void) {
    pthread_mutex_lock(&disk);
    cut();
}

static bool watched(const char *path) {
    return plan != NULL && strncmp(path, root, root_len) == 0 &&
           (path[root_len] == '/' || path[root_len] == '\0');
}

static bool watched_fd(int fd, char path[PATH_MAX]) {
    if (plan == NULL) {
        return false;
    }
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, PATH_MAX - 1);
    path[len > 0 ? len : 0] = '\0';
    return watched(path);
}

typedef enum turn {
    TURN_FREE, /* the file is not watched, and the lock is not held */
    TURN_GO,
    TURN_FAIL,
    TURN_HALF,
    TURN_DIE_AFTER
} turn;

static turn fire(bool writes, bool grows) {
    switch (plan->kind) {
    case FAULT_KILL_AFTER:
        return TURN_DIE_AFTER;
    case FAULT_TORN:
        if (writes) {
            return TURN_HALF;
        }
        die();
        return TURN_GO;
    case FAULT_KILL:
        die();
        return TURN_GO;
    case FAULT_POWER:
    case FAULT_POWER_TORN:
        cut();
        return TURN_GO;
    case FAULT_IO:
        errno = EIO;
        return TURN_FAIL;
    case FAULT_FULL:
        errno = ENOSPC;
        return grows ? TURN_FAIL : TURN_GO;
    default:
        return TURN_GO;
    }
}

static turn step(const char *name, const char *path, bool writes, bool grows) {
    pthread_mutex_lock(&disk);
    uint64_t n = atomic_fetch_add(&plan->calls, 1) + 1;
    uint64_t last = plan->at + (plan->kind == FAULT_FULL ? FAULT_FULL_CALLS - 1 : 0);
    if (plan->at == 0 || n < plan->at || n > last) {
        return TURN_GO;
    }
    if (atomic_exchange(&plan->fired, 1) == 0) {
        snprintf(plan->what, sizeof plan->what, "%s %.150s", name, path + root_len);
    }
    return fire(writes, grows);
}

/** Begin a call that changes nothing. The lock keeps it from seeing a half-made power cut. */
static turn look(void) {
    pthread_mutex_lock(&disk);
    return TURN_GO;
}

static long done(turn t, long result) {
    if (t == TURN_DIE_AFTER || t == TURN_HALF) {
        die();
    }
    if (t != TURN_FREE) {
        pthread_mutex_unlock(&disk);
    }
    return result;
}

/* A replacement has a name of its own in C, and the C library's name for the linker. */
#define STANDS_FOR(name) __asm__(name)
#define ALSO(name, of)   __asm__(name) __attribute__((alias(of)))

ssize_t fault_write(int fd, const void *data, size_t len) STANDS_FOR("write");
ssize_t fault_writev(int fd, const struct iovec *parts, int count) STANDS_FOR("writev");
ssize_t fault_pwrite(int fd, const void *data, size_t len, int64_t offset) STANDS_FOR("pwrite");
ssize_t fault_pwrite64(int fd, const void *data, size_t len, int64_t offset)
    ALSO("pwrite64", "pwrite");
int fault_ftruncate(int fd, int64_t size) STANDS_FOR("ftruncate");
int fault_ftruncate64(int fd, int64_t size) ALSO("ftruncate64", "ftruncate");
int fault_fsync(int fd) STANDS_FOR("fsync");
int fault_fdatasync(int fd) STANDS_FOR("fdatasync");
int fault_open(const char *path, int flags, ...) STANDS_FOR("open");
int fault_open64(const char *path, int flags, ...) ALSO("open64", "open");
int fault_mkstemp(char *path) STANDS_FOR("mkstemp");
int fault_mkstemp64(char *path) ALSO("mkstemp64", "mkstemp");
int fault_rename(const char *from, const char *to) STANDS_FOR("rename");
int fault_unlink(const char *path) STANDS_FOR("unlink");
int fault_rmdir(const char *path) STANDS_FOR("rmdir");
int fault_mkdir(const char *path, mode_t mode) STANDS_FOR("mkdir");

static ssize_t put(const char *name, int fd, const void *data, size_t len, int64_t offset) {
    char path[PATH_MAX];
    turn t = watched_fd(fd, path) ? step(name, path, true, true) : TURN_FREE;
    if (t == TURN_FAIL) {
        return done(t, -1);
    }
    size_t n = t == TURN_HALF ? len / 2 : len;
    long result =
        offset >= 0 ? syscall(SYS_pwrite64, fd, data, n, offset) : syscall(SYS_write, fd, data, n);
    return done(t, result);
}

ssize_t fault_write(int fd, const void *data, size_t len) {
    return put("write", fd, data, len, -1);
}

ssize_t fault_pwrite(int fd, const void *data, size_t len, int64_t offset) {
    return put("pwrite", fd, data, len, offset);
}

ssize_t fault_writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!watched_fd(fd, path)) {
        return syscall(SYS_writev, fd, parts, count);
    }
    /* Write the first part only, a short count. */
    return count > 0 ? put("writev", fd, parts[0].iov_base, parts[0].iov_len, -1) : 0;
}

int fault_ftruncate(int fd, int64_t size) {
    char path[PATH_MAX];
    turn t = watched_fd(fd, path) ? step("ftruncate", path, false, true) : TURN_FREE;
    return (int)done(t, t == TURN_FAIL ? -1 : syscall(SYS_ftruncate, fd, size));
}

static bool lies_about(int fd) {
    struct stat info;
    bool names = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    return plan->lie == FAULT_LIES_ON_ALL || (plan->lie == FAULT_LIES_ON_NAMES && names);
}

/* Do no real sync, but record it in the image of the disk if there is one. */
static int sync_fd(const char *name, int fd, long number) {
    char path[PATH_MAX];
    if (!watched_fd(fd, path)) {
        return (int)syscall(number, fd);
    }
    turn t = step(name, path, false, false);
    if (t == TURN_FAIL) {
        return (int)done(t, -1);
    }
    if (loses_pages() && !lies_about(fd)) {
        fault_image_sync(fd, path);
    }
    return (int)done(t, 0);
}

int fault_fsync(int fd) {
    return sync_fd("fsync", fd, SYS_fsync);
}

int fault_fdatasync(int fd) {
    return sync_fd("fdatasync", fd, SYS_fdatasync);
}

static int opened(turn t, int fd) {
    if (fd >= 0 && t != TURN_FREE && loses_pages()) {
        fault_image_meet(fd);
    }
    return (int)done(t, fd);
}

int fault_open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
    turn t = !watched(path) ? TURN_FREE : changes ? step("open", path, false, true) : look();
    if (t == TURN_FAIL) {
        return (int)done(t, -1);
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    return changes ? opened(t, fd) : (int)done(t, fd);
}

static int open_new(char *path) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    char *end = path + strlen(path) - 6;
    int fd = -1;
    do {
        uint8_t random[6];
        (void)syscall(SYS_getrandom, random, sizeof random, 0);
        for (int k = 0; k < 6; k++) {
            end[k] = letters[random[k] % 32];
        }
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

int fault_mkstemp(char *path) {
    turn t = watched(path) ? step("mkstemp", path, false, true) : TURN_FREE;
    return opened(t, t == TURN_FAIL ? -1 : open_new(path));
}

int fault_rename(const char *from, const char *to) {
    turn t = watched(to) ? step("rename", to, false, true) : TURN_FREE;
    return (int)done(t,
                     t == TURN_FAIL ? -1 : syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

static int remove_path(const char *name, const char *path, int flags) {
    turn t = watched(path) ? step(name, path, false, false) : TURN_FREE;
    return (int)done(t, t == TURN_FAIL ? -1 : syscall(SYS_unlinkat, AT_FDCWD, path, flags));
}

int fault_unlink(const char *path) {
    return remove_path("unlink", path, 0);
}

int fault_rmdir(const char *path) {
    return remove_path("rmdir", path, AT_REMOVEDIR);
}

int fault_mkdir(const char *path, mode_t mode) {
    turn t = watched(path) ? step("mkdir", path, false, true) : TURN_FREE;
    return (int)done(t, t == TURN_FAIL ? -1 : syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
