/* A worker group for tests: the failure detector runs in the test, and the members are child
 * processes that make steps together. */
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
    WORKER_GROUP_OVER = 3,     /* FED_EIO: the failure detector ended the group by a verdict */
    WORKER_GROUP_LEFT_OUT = 4, /* FED_ESTATE: the group goes on without this member */
    WORKER_GROUP_ALONE = 5,    /* FED_ENET: the failure detector can't be reached */
    WORKER_GROUP_WRONG = 6     /* something that the member did not expect */
};

/* Memory that all members and the failure detector share. It takes the place of a gradient
 * exchange, and lets the test plan faults. */
typedef struct worker_group_board {
    char address[128]; /* address of the failure detector; valid once `open` is set */
    atomic_bool open;
    atomic_uint finish;
    atomic_uint put[WORKER_GROUP_GENERATIONS]
                   [WORKER_GROUP_MOST]; /* steps done by each rank, for each generation */
    atomic_uint generation[WORKER_GROUP_MOST], completed[WORKER_GROUP_MOST];
    atomic_uint odd, give_up;          /* odd: the worker that reports a wrong digest; give_up:
                                          the worker that ends after step 20 */
    atomic_uint stuck;                 /* the worker that stays in its backward pass to the end */
    atomic_uint line, entered, wired;  /* with network namespaces; line: the worker behind a bad
                                          line */
    char said[WORKER_GROUP_MOST][400]; /* the last error text of each worker */
} worker_group_board;

typedef struct group_case {
    worker_group_board *board;
    feddc_detector *detector;
    pid_t pid[WORKER_GROUP_MOST]; /* 0: ended, and was waited for */
    int code[WORKER_GROUP_MOST];  /* exit status, or 128 + signal; -1: still running */
    uint32_t size;
    const char *listens; /* address of the failure detector; NULL: on loopback */
    /* enter: what each member does first; wire: what the test does once all exist; NULL:
     * nothing. */
    void (*enter)(worker_group_board *board, uint32_t worker);
    void (*wire)(const struct group_case *g);
    _Atomic(uint32_t) verdicts;
    feddc_verdict verdict[WORKER_GROUP_MOST];
    int64_t verdict_ms[WORKER_GROUP_MOST];
} group_case;

/** Start `size` members and their failure detector, and wait until they have done 100 steps. Before
 * the call, set listens, enter and wire of *g, and zero the rest. */
void group_case_start(group_case *g, uint32_t size, uint32_t min);

/** Wait for so many verdicts, at most 30 s. */
void group_case_await(group_case *g, uint32_t verdicts);

/** Wait at most 30 s until all living members except `except` have done `more` steps in this
 * generation. */
void group_case_await_steps(group_case *g, uint32_t generation, uint32_t more, uint32_t except);

/** Let the living members finish, and wait at most 30 s for the failure detector's final state. */
feddc_detector_state group_case_finish(group_case *g);

/** Wait at most 15 s for all children, kill the rest, close the failure detector and free the
 * memory. */
void group_case_end(group_case *g);

#endif
