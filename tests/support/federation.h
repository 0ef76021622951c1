/* A little federation: a coordinator and a few devices, each a process of its own that can be
 * killed alone, joined by sockets of one machine and driven turn by turn in a time of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FEDERATION_H
#define FED_FEDERATION_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fed_ledger.h"
#include "fedserver/operator.h"
#include "tests/support/faults/fault_disk.h"

enum { FEDERATION_DEVICES = 3, FEDERATION_LIVES = 2, FEDERATION_VERSIONS = 16 };
enum { FEDERATION_COUNTED = 64 }; /* updates, at most */

/** A process: the coordinator is 0, device k is k + 1; a person's command is the last. */
enum {
    FEDERATION_COORDINATOR = 0,
    FEDERATION_OPERATOR = 1 + FEDERATION_DEVICES,
    FEDERATION_PROCESSES
};

/** What a person does in the middle of the task, in a process of its own. */
typedef enum federation_job {
    FEDERATION_NO_JOB = 0,
    FEDERATION_BACKUP,  /* while the coordinator serves; after every other one it is lost, and the
                           backup takes its place */
    FEDERATION_RESTORE, /* the coordinator is lost; a backup is restored in its place */
    FEDERATION_MIGRATE, /* its database is an earlier release's, and is opened */
    FEDERATION_QUEUE    /* the task that runs is paused and resumed, another one that is queued is
                           moved in front and cancelled; while the coordinator serves */
} federation_job;

/** Makes a directory that every run begins with: a coordinator with the task, devices enrolled. */
typedef struct federation_setup {
    char directory[300];
    const char *task; /* JSON; the model is `model`, from zeros */
    const char *model;
    unsigned devices;
    bool one_is_late;      /* the last device's updates are overtaken by everybody else's */
    bool counts_any_round; /* asynchronous: a round counts what was trained for an earlier one */
    bool enrolled;         /* else each enrols in its first turn */
    bool acks_early;       /* a planted fault: the coordinator answers before it commits */
    federation_job job;
    unsigned job_after; /* ... once so many updates are acknowledged */
    unsigned layout;    /* FEDERATION_MIGRATE: of the database, 1, 7 or 8 */
    char token[FEDERATION_DEVICES][FEDSERVER_TOKEN];
} federation_setup;

/** What goes wrong at which process, in its first life and in those after it. */
typedef struct federation_fault {
    unsigned process;
    fault_kind kind;
    uint64_t at[FEDERATION_LIVES]; /* 0: nothing */
    uint64_t storm;                /* not 0: every process dies now and then, as this seed says,
                                      and some stay away until their lease is over */
    fault_lie lie;                 /* of every disk */
} federation_fault;

/** What a run came to. */
typedef struct federation_result {
    bool fired;
    char what[200];                          /* where it fired */
    uint64_t calls[FEDERATION_PROCESSES];    /* that change files, in each first life */
    unsigned kills, turns, refused, counted; /* counted: updates that were acknowledged */
    unsigned lost, twice;
    uint64_t digest;  /* of the final model */
    char broken[500]; /* which invariant does not hold, and how; "": all do */
} federation_result;

void federation_prepare(federation_setup *setup);
void federation_clear(federation_setup *setup);

/** One run, from the prepared directory to the end of the task. */
void federation_run(const federation_setup *setup, const federation_fault *fault,
                    federation_result *result);

/** `fedserver init` under a fault at that call; then it must be open to use, or not be there and
 * init must do. False: init makes fewer calls. Fails the test otherwise. */
bool federation_init_dies(fault_kind kind, uint64_t at);

/* -- between its files -- */

typedef struct federation_process {
    pid_t pid; /* 0: not there */
    int fd;
    fault_plan *plan; /* shared with the child */
    unsigned lives;
    bool finished; /* a device that knows the task is over */
    bool excused;  /* it said why it is about to end */
    int64_t due_ms;
} federation_process;

/** Asynchronous: in which order updates counted, by their leases. */
typedef struct federation_order {
    uint64_t lease[FEDERATION_COUNTED];
    size_t count;
    uint64_t unsure; /* the coordinator died over this one; 0: none */
} federation_order;

typedef struct federation {
    const federation_setup *setup;
    const federation_fault *fault;
    federation_result *result;
    char directory[400];
    federation_process process[FEDERATION_PROCESSES];
    int64_t now_ms;
    fed_ledger ledger;
    federation_order order;
    bool enrols_only, overtaking, job_done;
    bool over;                            /* a device knows that the task is over */
    uint64_t digest[FEDERATION_VERSIONS]; /* of each version, as it was announced; 0: not yet */
    uint64_t tasks; /* FEDERATION_MIGRATE: digest of their texts before; 0: not yet */
} federation;

/** Note the first invariant that does not hold. */
void federation_break(federation *f, const char *format, ...) FED_PRINTF(2, 3);

/** The children's whole lives. */
_Noreturn void federation_coordinator(const federation *f, int fd);
_Noreturn void federation_device(const federation *f, int fd, unsigned k);

/** Put a request to the coordinator, which is there. False: it died. */
bool federation_ask(federation *f, const fed_writer *request, fed_writer *answer);

/** Keep the order: an update was acknowledged; the coordinator died over one; it is back; and at
 * the end, say in the ledger in which round each update counted, and with which weight. */
void federation_order_counted(federation *f, uint64_t lease);
void federation_order_lost(federation *f, uint64_t lease);
void federation_order_settle(federation *f);
void federation_order_place(federation *f, const json_t *status);

/** The fault of the life that a process begins; its calls are counted in any case. */
void federation_plan_life(const federation *f, unsigned who);

/** Do the setup's job, and judge what it leaves. */
void federation_operate(federation *f);

/** After FEDERATION_MIGRATE and all that followed: are the tasks what they were? */
void federation_check_tasks(federation *f);

/** Let the processes end, as a person stops them. */
void federation_quit(federation *f, unsigned who);

/** The machine has stopped. */
void federation_kill_all(federation *f);

/** A process has ended, by itself or by a signal; note how. */
void federation_bury(federation *f, unsigned who);

/** A datagram of the sockets between the processes; false: the other end is gone, or silent. */
bool federation_send(int fd, const fed_writer *w);
bool federation_receive(int fd, fed_writer *w);

/** A request, as devices put it: u8 front, u8 named, fingerprint[32], method, path, query, bearer,
 * Range, If-Range (strings), body. */
enum {
    FEDERATION_ASK = 'A',
    FEDERATION_STEP = 'S',
    FEDERATION_ENROL = 'E',
    FEDERATION_DONE = 'D',
    FEDERATION_QUIT = 'Q'
};

/** Let every device enrol; what is then on the disks is what runs begin with. */
void federation_enrol(federation_setup *setup);

/** D6: what a death leaves behind does not pile up: nothing there has that mark in its name. */
void federation_check_leftovers(federation *f, const char *directory, const char *mark);

/** D1-D5, once the task is over and every process has ended. */
void federation_check(federation *f);

#endif
