/* A disk that fails: it numbers the system calls that change files, and makes one of them fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAULT_DISK_H
#define FED_FAULT_DISK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * This library is loaded before the C library, so every part of the process, also SQLite, uses its
 * replacements of these calls: open with O_CREAT, mkstemp, write, pwrite, writev, ftruncate, fsync,
 * fdatasync, rename, unlink, mkdir, rmdir. The calls on files under the watched directory are
 * counted from 1.
 *
 * Between two such calls, nothing that survives the process can change. So a test that ends the
 * process at each call covers the end at every instant.
 *
 * Threads make these calls, and opens for reading, one at a time. When the process ends, it ends
 * for all threads: a later call of another thread never returns.
 */
typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_KILL, /* SIGKILL instead of the call; bytes already written stay */
    FAULT_KILL_AFTER,
    FAULT_TORN,       /* SIGKILL after half of a write; other calls: as FAULT_KILL */
    FAULT_POWER,      /* the machine stops: only synced bytes and synced names are left */
    FAULT_POWER_TORN, /* as FAULT_POWER, but each sector that was not synced may be old or new */
    FAULT_IO,         /* the call fails with EIO, once */
    FAULT_FULL,       /* of FAULT_FULL_CALLS calls, those that need room fail with ENOSPC */
    FAULT_KINDS
} fault_kind;

enum { FAULT_FULL_CALLS = 40, FAULT_SECTOR = 512 };

/** How a disk may report a sync that it has not done. */
typedef enum fault_lie {
    FAULT_HONEST = 0,
    FAULT_LIES_ON_ALL,
    FAULT_LIES_ON_NAMES /* syncs of directories do nothing */
} fault_lie;

/** The plan is in shared memory, so that it can be read after the process died. */
typedef struct fault_plan {
    fault_kind kind;
    uint64_t at;   /* number of the call that fails, from 1; 0: none */
    uint64_t seed; /* random seed for FAULT_POWER_TORN */
    fault_lie lie;
    atomic_ullong calls;
    atomic_int fired;
    char what[200]; /* the call that failed: its name and path */
} fault_plan;

/** Zeroed memory that child processes share, such as for a plan. NULL: out of memory. */
void *fault_shared_new(size_t size);
void fault_shared_free(void *shared, size_t size);

const char *fault_kind_name(fault_kind kind);

/** Watch the files under an absolute directory, in this process, once. Their contents at the time
 * of the call count as synced. */
void fault_disk_watch(const char *directory, fault_plan *plan);

/** End the process now, as a power cut does. Does not return. */
void fault_disk_cut(void);

/** Set this process's wall clock ahead by *ahead_ms, in shared memory. NULL: the clock is right. */
void fault_clock_use(const atomic_llong *ahead_ms);

#endif
