/* A disk that fails: the system calls that change files, numbered, and what goes wrong at one of
 * them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAULT_DISK_H
#define FED_FAULT_DISK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A library that defines these calls stands before the C library, so every part of the process goes
 * through it, SQLite too: open with O_CREAT, mkstemp, write, pwrite, writev, ftruncate, fsync,
 * fdatasync, rename, unlink, mkdir, rmdir. Calls on files under the watched directory are counted
 * from 1. Between two of them nothing that survives the process can change; so to die at each of
 * them in turn is to die at every instant.
 */
typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_KILL,       /* SIGKILL instead of the call; what was written stays */
    FAULT_KILL_AFTER, /* SIGKILL when the call is done */
    FAULT_TORN,       /* a write puts half of its bytes, then SIGKILL; other calls as KILL */
    FAULT_POWER,      /* the machine stops: only what was synced is left, names too */
    FAULT_POWER_TORN, /* likewise, but of what was not synced each sector may have got there */
    FAULT_IO,         /* the call fails with EIO, once */
    FAULT_FULL,       /* what needs room fails with ENOSPC, FAULT_FULL_CALLS calls long */
    FAULT_KINDS
} fault_kind;

enum { FAULT_FULL_CALLS = 40, FAULT_SECTOR = 512 };

/** A disk that says that it has synced what it has not. */
typedef enum fault_lie {
    FAULT_HONEST = 0,
    FAULT_LIES_ON_ALL,
    FAULT_LIES_ON_NAMES /* of directories: as if nobody had synced them */
} fault_lie;

/** What is to happen, and what did. In shared memory, so that it can be read after the death. */
typedef struct fault_plan {
    fault_kind kind;
    uint64_t at;   /* the call */
    uint64_t seed; /* of POWER_TORN */
    fault_lie lie;
    atomic_ullong calls; /* so far */
    atomic_int fired;
    char what[200]; /* the call that it fired at: its name and path */
} fault_plan;

/** Memory of zeros that children share, for a plan and the like. NULL: none left. */
void *fault_shared_new(size_t size);
void fault_shared_free(void *shared, size_t size);

/** This process gets a SIGKILL when its parent ends, however it ends. */
void fault_die_with_parent(void);

const char *fault_kind_name(fault_kind kind);

/** Watch the files under an absolute directory, from now on and in this process. What they hold now
 * counts as synced. Once a process. */
void fault_disk_watch(const char *directory, fault_plan *plan);

/** The machine stops now. Does not return. */
void fault_disk_cut(void);

/** Shared: milliseconds that the process's wall clock is ahead. NULL: it is right. */
void fault_clock_use(const atomic_llong *ahead_ms);

#endif
