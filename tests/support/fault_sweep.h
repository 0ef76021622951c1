/* Runs one operation many times, each time with a fault at another of its system calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_SWEEP_H
#define FAULT_SWEEP_H

#include "fed_test.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/faults/fault_disk.h"

typedef struct fault_sweep {
    const char *directory;
    uint64_t step; /* test every step-th call only */
    void *user;
    void (*start)(void *user);
    bool (*deed)(void *user); /* the operation; runs in a process of its own; true: acknowledged */
    void (*end)(void *user, bool acknowledged);
} fault_sweep;

static inline bool fault_sweep_deed(const fault_sweep *sweep, fault_plan *plan) {
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fault_disk_watch(sweep->directory, plan);
        _exit(sweep->deed(sweep->user) ? 3 : 0);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL
                                 : WEXITSTATUS(how) == 0 || WEXITSTATUS(how) == 3);
    return WIFEXITED(how) && WEXITSTATUS(how) == 3;
}

static inline void fault_sweep_run(const fault_sweep *sweep) {
    enum { CALLS = 1000 };
    fault_plan *plan = fault_shared_new(sizeof *plan);
    assert_non_null(plan);
    for (int kind = FAULT_KILL; kind < FAULT_KINDS; kind++) {
        bool fired = true;
        uint64_t at = 1 + (uint64_t)kind % sweep->step;
        for (; fired && at < CALLS; at += sweep->step) {
            sweep->start(sweep->user);
            *plan = (fault_plan){.kind = (fault_kind)kind, .at = at, .seed = at};
            const bool acknowledged = fault_sweep_deed(sweep, plan);
            fired = plan->fired != 0;
            sweep->end(sweep->user, acknowledged);
            assert_true(fired || acknowledged);
        }
        assert_false(fired);
        assert_true(at > 1 + 2 * sweep->step);
    }
    fault_shared_free(plan, sizeof *plan);
}

/** Call this first in main. It puts temporary directories into memory, to save time. */
static inline void fault_sweep_in_memory(void) {
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1);
    }
}

#endif
