/* A worker group of processes for tests: a failure detector here, and children that step together.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GROUP_CASE_H
#define FED_GROUP_CASE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "feddc/control.h"

enum {
    WORKER_GROUP_MOST = 8,
    WORKER_GROUP_GENERATIONS = 16,
    /* exit codes of a member */
    WORKER_GROUP_FINISHED = 0,
    WORKER_GROUP_OVER = 3,     /* FED_EIO: the verdict */
    WORKER_GROUP_LEFT_OUT = 4, /* FED_ESTATE */
    WORKER_GROUP_ALONE = 5,    /* FED_ENET */
    WORKER_GROUP_WRONG = 6     /* something that the member did not expect */
};

/* What failure detector and members share besides sockets: the members' stand-in for an exchange.
 */
typedef struct worker_group_board {
    char address[128]; /* the failure detector's; valid once `open` is set */
    atomic_bool open;
    atomic_uint finish; /* the step at which all finish */
    atomic_uint put[WORKER_GROUP_GENERATIONS]
                   [WORKER_GROUP_MOST]; /* steps that each rank has put in */
    atomic_uint generation[WORKER_GROUP_MOST], completed[WORKER_GROUP_MOST]; /* of each worker */
    atomic_uint odd, give_up; /* the worker with a wrong digest; that gives up at step 20; */
    atomic_uint stuck;        /* that stands in its backward pass until it hears of the end */
    atomic_uint line, entered, wired;  /* of a test with networks: the worker behind a line */
    char said[WORKER_GROUP_MOST][400]; /* each worker's last error */
} worker_group_board;

typedef struct group_case {
    worker_group_board *board;
    feddc_detector *detector;
    pid_t pid[WORKER_GROUP_MOST]; /* of each worker; 0: it has been waited for */
    int code[WORKER_GROUP_MOST];  /* exit codes; -1: none yet; 128 + signal */
    uint32_t size;
    const char *listens; /* the failure detector's address; NULL: on loopback */
    /* NULL, or what each member's process does first, and what the test does when all are there */
    void (*enter)(worker_group_board *board, uint32_t worker);
    void (*wire)(const struct group_case *g);
    _Atomic(uint32_t) verdicts;
    feddc_verdict verdict[WORKER_GROUP_MOST];
    int64_t verdict_ms[WORKER_GROUP_MOST]; /* when */
} group_case;

/** Start `size` members and their failure detector, and wait until they have done 100 steps. *g
 * holds listens, enter and wire, and is zero else. */
void group_case_start(group_case *g, uint32_t size, uint32_t min);

/** Wait until there are so many verdicts, or 30 s are over. */
void group_case_await(group_case *g, uint32_t verdicts);

/** Wait until all living members but `except` are in this generation and have done `more` steps in
 * it, or 30 s are over. */
void group_case_await_steps(group_case *g, uint32_t generation, uint32_t more, uint32_t except);

/** Let those who live finish, and wait for the failure detector's last state, 30 s at most. */
feddc_detector_state group_case_finish(group_case *g);

/** Wait for all children, 15 s at most: who lives then is killed. Close the failure detector, free.
 */
void group_case_end(group_case *g);

#endif
