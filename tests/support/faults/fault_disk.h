/* A disk that fails: it numbers the system calls that change files, and makes one of them fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAULT_DISK_H
#define FED_FAULT_DISK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A library that defines these calls precedes the C library. So every part of the process calls it,
 * SQLite too: open with O_CREAT, mkstemp, write, pwrite, writev, ftruncate, fsync, fdatasync,
 * rename, unlink, mkdir, rmdir. It counts calls on files under the watched directory from 1.
 * Between two such calls, nothing that survives the process can change. So a test that dies at each
 * call covers a death at every instant.
 *
 * Threads make these calls, and opens for reading, one at a time. The end of the process is the end
 * for each thread: a call that another thread begins after it never returns.
 */
typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_KILL,       /* SIGKILL instead of the call; bytes already written stay */
    FAULT_KILL_AFTER, /* SIGKILL after the call */
    FAULT_TORN,       /* a write writes half of its bytes, then SIGKILL; other calls as KILL */
    FAULT_POWER,      /* the machine stops: only synced bytes and synced names are left */
    FAULT_POWER_TORN, /* as POWER, but each sector that was not synced may be old or new */
    FAULT_IO,         /* the call fails with EIO, once */
    FAULT_FULL,       /* calls that need room fail with ENOSPC, FAULT_FULL_CALLS calls long */
    FAULT_KINDS
} fault_kind;

enum { FAULT_FULL_CALLS = 40, FAULT_SECTOR = 512 };

/** A disk that reports a sync that it has not done. */
typedef enum fault_lie {
    FAULT_HONEST = 0,
    FAULT_LIES_ON_ALL,
    FAULT_LIES_ON_NAMES /* syncs of directories do nothing */
} fault_lie;

/** The planned fault, and what happened. The plan is in shared memory, so that it can be read after
 * the process died. */
typedef struct fault_plan {
    fault_kind kind;
    uint64_t at;   /* the number of the call */
    uint64_t seed; /* of POWER_TORN */
    fault_lie lie;
    atomic_ullong calls; /* calls so far */
    atomic_int fired;
    char what[200]; /* the call that failed: its name and path */
} fault_plan;

/** Zeroed memory that child processes share, such as for a plan. NULL: out of memory. */
void *fault_shared_new(size_t size);
void fault_shared_free(void *shared, size_t size);

const char *fault_kind_name(fault_kind kind);

/** Watch the files under an absolute directory, from now on and in this process. Their present
 * contents count as synced. Call it once in a process. */
void fault_disk_watch(const char *directory, fault_plan *plan);

/** Stop the machine now. Does not return. */
void fault_disk_cut(void);

/** Set the wall clock of this process ahead by *ahead_ms, which is shared memory. NULL: the clock
 * is right. */
void fault_clock_use(const atomic_llong *ahead_ms);

#endif
