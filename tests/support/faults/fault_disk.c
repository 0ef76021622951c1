/* The calls that change files, between the program and the system. See fault_disk.h. */
/* Both names of each call are defined here (open and open64), so none may be renamed. */
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE /* NOLINT: RTLD_NEXT, syscall */
#include "fault_disk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fault_image.h"

static fault_plan *plan; /* NULL: nothing is watched */
static char root[PATH_MAX];
static size_t root_len;

void *fault_shared_new(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void fault_shared_free(void *shared, size_t size) {
    (void)munmap(shared, size);
}

void fault_die_with_parent(void) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
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
    _exit(137); /* not reached */
}

void fault_disk_cut(void) {
    fault_image_restore(plan->kind == FAULT_POWER_TORN, plan->seed);
    die();
}

/* -- which calls count -- */

static bool watched(const char *path) {
    return plan != NULL && strncmp(path, root, root_len) == 0 &&
           (path[root_len] == '/' || path[root_len] == '\0');
}

/** The path of a descriptor, if it is watched. */
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

/* -- what happens at one -- */

typedef enum turn { TURN_GO, TURN_FAIL, TURN_HALF, TURN_DIE_AFTER } turn;

static turn fire(const char *name, const char *path, bool writes, bool grows) {
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
        fault_disk_cut();
        return TURN_GO;
    case FAULT_IO:
        errno = EIO;
        return TURN_FAIL;
    case FAULT_FULL:
        errno = ENOSPC;
        return grows ? TURN_FAIL : TURN_GO;
    default:
        (void)name, (void)path;
        return TURN_GO;
    }
}

/** Count a call. */
static turn step(const char *name, const char *path, bool writes, bool grows) {
    uint64_t n = atomic_fetch_add(&plan->calls, 1) + 1;
    uint64_t last = plan->kind == FAULT_FULL ? plan->at + FAULT_FULL_CALLS : plan->at;
    if (plan->at == 0 || n < plan->at || n > last) {
        return TURN_GO;
    }
    if (atomic_exchange(&plan->fired, 1) == 0) {
        snprintf(plan->what, sizeof plan->what, "%s %.150s", name, path + root_len);
    }
    return fire(name, path, writes, grows);
}

/** What the call came to. */
static long done(turn t, long result) {
    if (t == TURN_DIE_AFTER) {
        die();
    }
    return result;
}

/* -- the calls -- */

static ssize_t put(const char *name, int fd, const void *data, size_t len, bool at, off_t offset) {
    char path[PATH_MAX];
    turn t = watched_fd(fd, path) ? step(name, path, true, true) : TURN_GO;
    if (t == TURN_FAIL) {
        return -1;
    }
    size_t n = t == TURN_HALF ? len / 2 : len;
    long result = at ? syscall(SYS_pwrite64, fd, data, n, offset) : syscall(SYS_write, fd, data, n);
    if (t == TURN_HALF) {
        die();
    }
    return done(t, result);
}

ssize_t write(int fd, const void *data, size_t len) {
    return put("write", fd, data, len, false, 0);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset) {
    return put("pwrite", fd, data, len, true, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset) {
    return put("pwrite", fd, data, len, true, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!watched_fd(fd, path)) {
        return syscall(SYS_writev, fd, parts, count);
    }
    /* One part at a time: a short count is what the caller must be ready for anyway. */
    return count > 0 ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0;
}

static int truncate_fd(int fd, off_t size) {
    char path[PATH_MAX];
    turn t = watched_fd(fd, path) ? step("ftruncate", path, false, true) : TURN_GO;
    return t == TURN_FAIL ? -1 : (int)done(t, syscall(SYS_ftruncate, fd, size));
}

int ftruncate(int fd, off_t size) {
    return truncate_fd(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    return truncate_fd(fd, size);
}

/* Of a watched file the image is what a sync reaches; waiting for the real disk would only cost
 * time. */
static int sync_fd(const char *name, int fd, long number) {
    char path[PATH_MAX];
    if (!watched_fd(fd, path)) {
        return (int)syscall(number, fd);
    }
    turn t = step(name, path, false, false);
    if (t == TURN_FAIL) {
        return -1;
    }
    struct stat info;
    bool names = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    bool lie = plan->lie == FAULT_LIES_ON_ALL || (plan->lie == FAULT_LIES_ON_NAMES && names);
    if (loses_pages() && !lie) {
        fault_image_sync(fd, path);
    }
    return (int)done(t, 0);
}

int fsync(int fd) {
    return sync_fd("fsync", fd, SYS_fsync);
}

int fdatasync(int fd) {
    return sync_fd("fdatasync", fd, SYS_fdatasync);
}

/** A file was opened that may be new. */
static int opened(turn t, int fd) {
    if (fd >= 0 && plan != NULL && loses_pages()) {
        fault_image_meet(fd);
    }
    return (int)done(t, fd);
}

static int open_path(const char *path, int flags, mode_t mode) {
    if (!watched(path) || (flags & (O_CREAT | O_TRUNC)) == 0) {
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    }
    turn t = step("open", path, false, true);
    return t == TURN_FAIL ? -1 : opened(t, (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

static mode_t mode_of(int flags, va_list rest) {
    return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return open_path(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return open_path(path, flags, mode);
}

int mkstemp(char *path) {
    int (*real)(char *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "mkstemp");
    turn t = watched(path) ? step("mkstemp", path, false, true) : TURN_GO;
    return t == TURN_FAIL ? -1 : opened(t, real(path));
}

int mkstemp64(char *path) {
    return mkstemp(path);
}

int rename(const char *from, const char *to) {
    turn t = watched(to) ? step("rename", to, false, true) : TURN_GO;
    return t == TURN_FAIL ? -1
                          : (int)done(t, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

static int remove_path(const char *name, const char *path, int flags) {
    turn t = watched(path) ? step(name, path, false, false) : TURN_GO;
    return t == TURN_FAIL ? -1 : (int)done(t, syscall(SYS_unlinkat, AT_FDCWD, path, flags));
}

int unlink(const char *path) {
    return remove_path("unlink", path, 0);
}

int rmdir(const char *path) {
    return remove_path("rmdir", path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode) {
    turn t = watched(path) ? step("mkdir", path, false, true) : TURN_GO;
    return t == TURN_FAIL ? -1 : (int)done(t, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
