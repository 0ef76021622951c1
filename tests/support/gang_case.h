/* A gang of processes for tests: a judge here, and children that step together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GANG_CASE_H
#define FED_GANG_CASE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "feddc/control.h"

enum {
    GANG_MOST = 8,
    GANG_GENERATIONS = 16,
    /* exit codes of a member */
    GANG_FINISHED = 0,
    GANG_OVER = 3,     /* FED_EIO: the verdict */
    GANG_LEFT_OUT = 4, /* FED_ESTATE */
    GANG_ALONE = 5,    /* FED_ENET */
    GANG_WRONG = 6     /* something that the member did not expect */
};

/* What judge and members share besides sockets: the members' stand-in for an exchange. */
typedef struct gang_board {
    char address[128]; /* the judge's; valid once `open` is set */
    atomic_bool open;
    atomic_uint finish;                                  /* the step at which all finish */
    atomic_uint put[GANG_GENERATIONS][GANG_MOST];        /* steps that each rank has put in */
    atomic_uint generation[GANG_MOST], whole[GANG_MOST]; /* of each worker */
    atomic_uint odd, give_up; /* the worker with a wrong digest; that gives up at step 20; */
    atomic_uint stuck;        /* that stands in its backward pass until it hears of the end */
    atomic_uint line, entered, wired; /* of a test with networks: the worker behind a line */
    char said[GANG_MOST][400];        /* each worker's last error */
} gang_board;

typedef struct gang_case {
    gang_board *board;
    feddc_judge *judge;
    pid_t pid[GANG_MOST]; /* of each worker; 0: it has been waited for */
    int code[GANG_MOST];  /* exit codes; -1: none yet; 128 + signal */
    uint32_t size;
    const char *listens; /* the judge's address; NULL: on loopback */
    /* NULL, or what each member's process does first, and what the test does when all are there */
    void (*enter)(gang_board *board, uint32_t worker);
    void (*wire)(const struct gang_case *g);
    _Atomic(uint32_t) verdicts;
    feddc_verdict verdict[GANG_MOST];
    int64_t verdict_ms[GANG_MOST]; /* when */
} gang_case;

/** Start `size` members and their judge, and wait until they have done 100 steps. *g holds listens,
 * enter and wire, and is zero else. */
void gang_case_start(gang_case *g, uint32_t size, uint32_t min);

/** Wait until there are so many verdicts, or 30 s are over. */
void gang_case_await(gang_case *g, uint32_t verdicts);

/** Wait until all living members but `except` are in this generation and have done `more` steps in
 * it, or 30 s are over. */
void gang_case_await_steps(gang_case *g, uint32_t generation, uint32_t more, uint32_t except);

/** Let those who live finish, and wait for the judge's last state, 30 s at most. */
feddc_judge_state gang_case_finish(gang_case *g);

/** Wait for all children, 15 s at most: who lives then is killed. Close the judge, free. */
void gang_case_end(gang_case *g);

#endif
