/* A worker group for tests: the failure detector runs in the test, and the members are child
 * processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GROUP_CASE_H
#define FED_GROUP_CASE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "feddc/control.h"

enum {
    WORKER_GROUP_MOST = 8,
    WORKER_GROUP_GENERATIONS = 16,
    /* Exit statuses of a member. */
    WORKER_GROUP_FINISHED = 0,
    WORKER_GROUP_OVER = 3,     /* FED_EIO: a verdict ended the group */
    WORKER_GROUP_LEFT_OUT = 4, /* FED_ESTATE: the group goes on without this member */
    WORKER_GROUP_ALONE = 5,    /* FED_ENET: the failure detector can't be reached */
    WORKER_GROUP_WRONG = 6
};

/* Memory that all members and the test share, to plan faults and to count steps. */
typedef struct worker_group_board {
    char address[128]; /* address of the failure detector; valid once `open` is set */
    atomic_bool open;
    atomic_uint finish;
    atomic_uint put[WORKER_GROUP_GENERATIONS][WORKER_GROUP_MOST]; /* a rank's steps */
    atomic_uint generation[WORKER_GROUP_MOST], completed[WORKER_GROUP_MOST];
    atomic_uint odd, give_up; /* the workers that report a wrong digest or end early */
    atomic_uint stuck;
    atomic_uint line, entered, wired;
    char said[WORKER_GROUP_MOST][400];
} worker_group_board;

typedef struct group_case {
    worker_group_board *board;
    feddc_detector *detector;
    pid_t pid[WORKER_GROUP_MOST]; /* 0: ended, and was waited for */
    int code[WORKER_GROUP_MOST];  /* exit status, or 128 + signal; -1: still running */
    uint32_t size;
    const char *listens; /* address of the failure detector; NULL: on loopback */
    /* Hooks of the test, each may be NULL. enter: called first in each member; wire: called when
     * all members exist. */
    void (*enter)(worker_group_board *board, uint32_t worker);
    void (*wire)(const struct group_case *g);
    _Atomic(uint32_t) verdicts;
    feddc_verdict verdict[WORKER_GROUP_MOST];
    int64_t verdict_ms[WORKER_GROUP_MOST];
} group_case;

/** Start `size` members and their failure detector, and wait until they have made some steps.
 * Before the call, set listens, enter and wire of *g, and zero the rest. */
void group_case_start(group_case *g, uint32_t size, uint32_t min);

/** Wait for so many verdicts. The test fails if they do not come. */
void group_case_await(group_case *g, uint32_t verdicts);

/** Wait until all members except `except` have done `more` steps in this generation. */
void group_case_await_steps(group_case *g, uint32_t generation, uint32_t more, uint32_t except);

/** Let the living members finish, and return the failure detector's final state. */
feddc_detector_state group_case_finish(group_case *g);

/** Wait for the children, kill those that remain, and free everything. */
void group_case_end(group_case *g);

#endif
