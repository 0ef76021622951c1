/* A small federation: a coordinator and a few devices, each a process of its own. A test can kill
 * each process alone. The processes talk over sockets of one machine, and a driver steps them one
 * by one in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FEDERATION_H
#define FED_FEDERATION_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fed_history.h"
#include "fed_ledger.h"
#include "fedserver/operator.h"
#include "tests/support/faults/fault_disk.h"

enum { FEDERATION_DEVICES = 3, FEDERATION_LIVES = 2, FEDERATION_VERSIONS = 512 };
enum { FEDERATION_COUNTED = 64 }; /* at most so many updates */

/** Numbers of processes: the coordinator is 0, device k is k + 1, and the operator's command is the
 * last. */
enum {
    FEDERATION_COORDINATOR = 0,
    FEDERATION_OPERATOR = 1 + FEDERATION_DEVICES,
    FEDERATION_PROCESSES
};

/** What the operator does in the middle of the task, in a process of its own. */
typedef enum federation_job {
    FEDERATION_NO_JOB = 0,
    FEDERATION_BACKUP,  /* a backup while the coordinator serves; after every other backup the
                           coordinator is lost, and the backup replaces it */
    FEDERATION_RESTORE, /* the coordinator is lost, and a restored backup replaces it */
    FEDERATION_MIGRATE, /* the coordinator opens the database of an earlier release */
    FEDERATION_QUEUE    /* while the coordinator serves: a running task is paused and resumed;
                           a queued task is moved to the front and cancelled */
} federation_job;

/** The directory that every run begins with: a coordinator with the task, and the devices' files.
 */
typedef struct federation_setup {
    char directory[300];
    const char *task; /* JSON; the model is `model`, from zeros */
    const char *model;
    unsigned devices;
    unsigned
        tasks;   /* above 1: so many tasks run side by side, and device k has task 1 + k % tasks */
    bool shared; /* each device has all of them, and slots for all */
    bool one_is_late;      /* the updates of all other devices overtake those of the last device */
    bool counts_any_round; /* asynchronous: a round also counts updates that were trained for an
                              earlier round */
    bool median;           /* the strategy is the median of a round's updates, not their mean */
    bool sums_of_edges;    /* updates reach the coordinator as sums of edge aggregators: its rounds
                              count    sums */
    bool enrolled;         /* else each device enrols in its first step */
    bool apart;            /* a thread makes each version; one request at most comes meanwhile */
    bool acks_early;       /* a planted fault: the coordinator answers before it commits */
    federation_job job;
    unsigned job_after; /* the job starts after so many acknowledged updates */
    unsigned layout;    /* FEDERATION_MIGRATE: the database's layout, 1, 7 or 8 */
    char token[FEDERATION_DEVICES][FEDSERVER_TOKEN];
} federation_setup;

/** Which fault happens in which process, in its first life and in later lives. */
typedef struct federation_fault {
    unsigned process;
    fault_kind kind;
    uint64_t at[FEDERATION_LIVES]; /* the call that fails; 0: none */
    uint64_t storm;                /* not 0: each process dies at times that this seed gives, and
                                      some stay away until their lease is over */
    fault_lie lie;                 /* the lie of every disk */
} federation_fault;

/** The result of a run. */
typedef struct federation_result {
    bool fired;
    char what[200];                          /* where the fault happened */
    uint64_t calls[FEDERATION_PROCESSES];    /* calls that change files, in each process's first
                                                life */
    unsigned kills, turns, refused, counted; /* counted: updates that were acknowledged */
    unsigned lost, twice;
    uint64_t digest;     /* of the final model */
    bool history_broken; /* H1 to H5 of fed_history.h alone say so, too */
    char broken[500];    /* the invariant that does not hold, and why; "": all hold */
} federation_result;

void federation_prepare(federation_setup *setup);
void federation_clear(federation_setup *setup);

/** One run, from the prepared directory to the end of the task. */
void federation_run(const federation_setup *setup, const federation_fault *fault,
                    federation_result *result);

/** Run `fedserver init` with a fault at this call. Afterwards the directory must be usable, or be
 * missing, so that a new init succeeds. Otherwise the test fails. Returns false if init makes fewer
 * calls. */
bool federation_init_dies(fault_kind kind, uint64_t at);

/* -- shared by the files of this federation -- */

typedef struct federation_process {
    pid_t pid; /* 0: no such process */
    int fd;
    fault_plan *plan; /* shared with the child */
    unsigned lives;
    bool finished; /* a device that knows the task is over */
    bool excused;  /* the process has said why it is about to end */
    int64_t due_ms;
} federation_process;

/** Asynchronous rounds: the order in which updates counted, by their leases. */
typedef struct federation_order {
    uint64_t lease[FEDERATION_COUNTED];
    size_t count;
    uint64_t unsure; /* the lease whose update the coordinator was counting when it died; 0: none */
} federation_order;

/** A training that a device has begun. It is durable if its number is, and if no later one has the
 * same number. */
typedef struct federation_training {
    unsigned device;
    uint64_t number, task;
} federation_training;

typedef struct federation {
    const federation_setup *setup;
    const federation_fault *fault;
    federation_result *result;
    char directory[400];
    federation_process process[FEDERATION_PROCESSES];
    int64_t now_ms;
    fed_ledger ledger;
    fed_history *history; /* NULL: none is kept */
    federation_order order;
    bool placed; /* the ledger says already in which round each update counts; not `order` */
    bool enrols_only, overtaking, job_done;
    bool over;                            /* a device knows that the task is over */
    uint64_t digest[FEDERATION_VERSIONS]; /* of each version, as the coordinator announced it; 0:
                                             not yet */
    uint64_t task;                  /* of several tasks, the one that is checked; 0: there is one */
    federation_training *trainings; /* of devices with slots, in their order */
    size_t training_count;
    uint64_t tasks; /* FEDERATION_MIGRATE: digest of the tasks' texts before the migration; 0:
                       not yet */
} federation;

/** Note the first invariant that does not hold. */
void federation_break(federation *f, const char *format, ...) FED_PRINTF(2, 3);

/** The main functions of the child processes. */
_Noreturn void federation_coordinator(const federation *f, int fd);
_Noreturn void federation_device(const federation *f, int fd, unsigned k);

/** Send a request to the coordinator, which must run. Returns false if the coordinator died. */
bool federation_ask(federation *f, const fed_writer *request, fed_writer *answer);

/** Keep the order of updates. _counted: an update was acknowledged. _died: the coordinator died
 * while it counted one. _back: the coordinator is back. _settle, at the end: write to the ledger in
 * which round and with which weight each update counted. */
void federation_order_counted(federation *f, uint64_t lease);
void federation_order_lost(federation *f, uint64_t lease);
void federation_order_settle(federation *f);
void federation_order_place(federation *f, const json_t *status);

/** Plan the fault of the life that a process begins. Its calls are counted even without a fault. */
void federation_plan_life(const federation *f, unsigned who);

/** Do the setup's job, and check its result. */
void federation_operate(federation *f);

/** After FEDERATION_MIGRATE and the end of the run: check that the tasks are unchanged. */
void federation_check_tasks(federation *f);

/** End a process, as the operator stops it. */
void federation_quit(federation *f, unsigned who);

/** Kill all processes: the machine has stopped. */
void federation_kill_all(federation *f);

/** Note how a process has ended: by itself or by a signal. */
void federation_bury(federation *f, unsigned who);

/** Send or receive a datagram between processes. False: the other end is gone, or silent. */
bool federation_send(int fd, const fed_writer *w);
bool federation_receive(int fd, fed_writer *w);

/** A device's request: u8 front, u8 named, fingerprint[32], method, path, query, bearer, Range,
 * If-Range (strings), body. */
enum {
    FEDERATION_ASK = 'A',
    FEDERATION_STEP = 'S',
    FEDERATION_ENROL = 'E',
    FEDERATION_DONE = 'D',
    FEDERATION_QUIT = 'Q'
};

/** Enrol every device. Runs begin with what is then on the disks. */
void federation_enrol(federation_setup *setup);

/** D6: leftovers of a killed process do not pile up. No name in the directory contains this mark.
 */
void federation_check_leftovers(federation *f, const char *directory, const char *mark);

/** For the history: a device was told of this version, or that this update counts. */
void federation_report_version(federation *f, unsigned device, uint32_t version, uint64_t digest);
void federation_report_update(federation *f, unsigned device, const uint8_t *update, size_t len);

/** A device with slots begins this training, of this task. */
void federation_report_training(federation *f, unsigned device, uint64_t number, uint64_t task);

/** Free the history, the ledger and the trainings. */
void federation_forget(federation *f);

/** The run ended early, as something is broken: what does its history say, without its rounds? */
void federation_judge_beginning(federation *f);

/** Check D1-D5, and the history, after the task is over and every process has ended. */
void federation_check(federation *f);

#endif
