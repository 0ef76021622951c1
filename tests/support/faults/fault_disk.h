/* Simulates a failing disk: counts system calls that change files, and lets one of them fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAULT_DISK_H
#define FED_FAULT_DISK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The test's program and its libraries, also SQLite, call this library's versions of open (to
 * create or truncate), mkstemp, write, pwrite, writev, ftruncate, fsync, fdatasync, rename, unlink,
 * mkdir and rmdir. Calls for files under the watched directory are counted from 1, and serialized
 * among threads.
 */
typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_KILL,
    FAULT_KILL_AFTER,
    FAULT_TORN,       /* SIGKILL after half of a write; for other calls as FAULT_KILL */
    FAULT_POWER,      /* a power cut: only synced data and names are left */
    FAULT_POWER_TORN, /* as FAULT_POWER, but unsynced sectors may be old or new */
    FAULT_IO,
    FAULT_FULL, /* calls that need space fail with ENOSPC for a while */
    FAULT_KINDS
} fault_kind;

enum { FAULT_FULL_CALLS = 40, FAULT_SECTOR = 512 };

typedef enum fault_lie {
    FAULT_HONEST = 0,
    FAULT_LIES_ON_ALL,
    FAULT_LIES_ON_NAMES /* only syncs of directories do nothing */
} fault_lie;

/** The plan must be in shared memory, to be read after the process died. */
typedef struct fault_plan {
    fault_kind kind;
    uint64_t at;   /* number of the call that fails, from 1; 0: none */
    uint64_t seed; /* for FAULT_POWER_TORN */
    fault_lie lie;
    atomic_ullong calls;
    atomic_int fired;
    char what[200]; /* name and path of the call that failed */
} fault_plan;

/** Allocate zeroed memory that is shared with child processes. NULL: out of memory. */
void *fault_shared_new(size_t size);
void fault_shared_free(void *shared, size_t size);

const char *fault_kind_name(fault_kind kind);

/** Watch the files under a directory, given by its absolute path. Call this once per process. What
 * the files hold now counts as synced. */
void fault_disk_watch(const char *directory, fault_plan *plan);

/** Simulate a power cut, which ends the process. Does not return. */
void fault_disk_cut(void);

/** Set this process's wall clock ahead by *ahead_ms. NULL: the clock is right. */
void fault_clock_use(const atomic_llong *ahead_ms);

#endif
