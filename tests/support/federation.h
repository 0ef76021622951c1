/* A small federation in virtual time: a coordinator and a few devices, each in a process that a
 * test can kill. They talk over sockets of one machine. A driver lets one process after the other
 * make a step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FEDERATION_H
#define FED_FEDERATION_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fed/point.h"
#include "fed_history.h"
#include "fed_ledger.h"
#include "fedcodec/ring.h"
#include "fedserver/operator.h"
#include "fedserver/task/task.h"
#include "tests/support/faults/fault_disk.h"

enum { FEDERATION_DEVICES = 6, FEDERATION_LIVES = 2, FEDERATION_VERSIONS = 512 };
enum { FEDERATION_COUNTED = 64 };

/** The processes' numbers. Device k is process k + 1. */
enum {
    FEDERATION_COORDINATOR = 0,
    FEDERATION_OPERATOR = 1 + FEDERATION_DEVICES,
    FEDERATION_HELPER, /* of a private task */
    FEDERATION_PROCESSES
};

/** What the operator does in the middle of the task, in a separate process. */
typedef enum federation_job {
    FEDERATION_NO_JOB = 0,
    FEDERATION_BACKUP,
    FEDERATION_RESTORE, /* the coordinator is lost, and a restored backup replaces it */
    FEDERATION_MIGRATE, /* the coordinator opens the database of an earlier release */
    FEDERATION_QUEUE    /* pauses, resumes, moves and cancels tasks while the coordinator serves */
} federation_job;

/** The state at the start of every run: a coordinator with its task, and the devices' files. */
typedef struct federation_setup {
    char directory[300];
    const char *task; /* the task as JSON; all values of its initial model are 0 */
    const char *model;
    unsigned devices;
    unsigned tasks;        /* tasks side by side; with several, device k has task 1 + k % tasks */
    bool shared;           /* each device takes part in all tasks */
    bool one_is_late;      /* the last device is slow, and the others send first */
    bool counts_any_round; /* asynchronous rounds: updates of earlier rounds count, too */
    bool median;
    bool sums_of_edges; /* updates come as sums from edge aggregators */
    bool enrolled;      /* devices are enrolled at the start, not in their first step */
    bool apart;
    bool acks_early; /* planted fault: the coordinator answers before it commits */
    federation_job job;
    unsigned job_after; /* number of acknowledged updates before the job starts */
    unsigned layout;    /* FEDERATION_MIGRATE: layout version of the database: 1, 7 or 8 */
    char token[FEDERATION_DEVICES][FEDSERVER_TOKEN];
    bool variates;    /* the task has codec_variates, and the model scaffold */
    bool helper_errs; /* planted fault: each of the helper's replies is another one */
    bool helped;      /* the task is private and has a helper, for whose key its text has HELPER */
    bool noisy;       /* the task promises an epsilon: what is released has noise */
    bool adapts;      /* of a task with `noisy`: its clip follows the updates, and `apart` is 1 */
    unsigned groups;  /* of a private task: sums of a round, of which the median counts; 0: one */
    uint8_t helper_secret[FED_POINT_SECRET];
    char helper_token[FEDSERVER_TOKEN];
} federation_setup;

/** A fault in one process, or a storm of faults in all. */
typedef struct federation_fault {
    unsigned process;
    fault_kind kind;
    uint64_t at[FEDERATION_LIVES]; /* for each life: number of the call that fails; 0: none */
    uint64_t storm;                /* not 0: seed for random faults of all processes */
    fault_lie lie;
} federation_fault;

typedef struct federation_result {
    bool fired;
    char what[200];
    uint64_t calls[FEDERATION_PROCESSES]; /* calls that change files, in the first life */
    unsigned kills, turns, refused, counted;
    unsigned lost, twice;
    unsigned opened; /* rounds that the helper opened; with two openings a rule is broken */
    uint64_t digest;
    bool history_broken; /* a rule of fed_history.h (H1 to H5) is broken */
    char broken[500];    /* the rule that is broken, and why; "": none */
} federation_result;

void federation_prepare(federation_setup *setup);
void federation_clear(federation_setup *setup);

void federation_run(const federation_setup *setup, const federation_fault *fault,
                    federation_result *result);

/** Run `fedserver init` with a fault at this system call. Afterwards the directory must be usable,
 * or missing so that a new init succeeds. Returns false if init makes fewer calls. */
bool federation_init_dies(fault_kind kind, uint64_t at);

/* The rest is only for the federation's source files. */

typedef struct federation_process {
    pid_t pid;
    int fd;
    fault_plan *plan;
    unsigned lives;
    bool finished;
    bool excused;
    int64_t due_ms;
} federation_process;

/** The helper's reply about a round, as its pieces came. */
typedef struct federation_reply {
    uint64_t digest; /* 0: there was none */
    uint8_t *bytes;  /* [len]; NULL: there was none */
    size_t len;
} federation_reply;

/** For asynchronous rounds: the leases of the updates, in the order in which they counted. */
typedef struct federation_order {
    uint64_t lease[FEDERATION_COUNTED];
    size_t count;
    uint64_t unsure; /* lease of an update that may have counted in a crash; 0: none */
} federation_order;

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
    fed_history *history; /* NULL: the history is not recorded */
    federation_order order;
    bool placed; /* the ledger already has each update's round, so `order` is not used */
    bool enrols_only, overtaking, job_done;
    bool over;
    uint64_t digest[FEDERATION_VERSIONS]; /* 0: not known yet */
    float clip[FEDERATION_VERSIONS];      /* that devices were told for a round; 0: none was */
    federation_reply reply[FEDERATION_VERSIONS];
    unsigned noises;        /* rounds whose noise the helper keeps at the end */
    fedcodec_ring ring;     /* of a private task */
    fedserver_task *stored; /* of a private task, while it is checked */
    uint64_t task;          /* the task to check; 0: the only one */
    federation_training *trainings;
    size_t training_count;
    uint64_t tasks; /* digest of the tasks' texts before FEDERATION_MIGRATE; 0: none yet */
} federation;

void federation_break(federation *f, const char *format, ...) FED_PRINTF(2, 3);

_Noreturn void federation_coordinator(const federation *f, int fd);
_Noreturn void federation_device(const federation *f, int fd, unsigned k);
_Noreturn void federation_helper(const federation *f, int fd);

/** Send a request to the running coordinator. Returns false if the coordinator died. */
bool federation_ask(federation *f, const fed_writer *request, fed_writer *answer);

/** Keep the order in which updates count. _counted: an update was acknowledged. _lost: the
 * coordinator died during an update. _settle: ask the restarted coordinator whether that update
 * counted. _place: write each update's round to the ledger. */
void federation_order_counted(federation *f, uint64_t lease);
void federation_order_lost(federation *f, uint64_t lease);
void federation_order_settle(federation *f);
void federation_order_place(federation *f, const json_t *status);

/** Plan the fault for the next start of a process. */
void federation_plan_life(const federation *f, unsigned who);

/** Do the operator's job, and check its result. */
void federation_operate(federation *f);

/** After a run with FEDERATION_MIGRATE, check that the tasks are unchanged. */
void federation_check_tasks(federation *f);

/** Order a process to end, and wait for its end. */
void federation_quit(federation *f, unsigned who);

/** Kill all processes, as if the machine had stopped. */
void federation_kill_all(federation *f);

/** Wait for a process that has ended. */
void federation_bury(federation *f, unsigned who);

/** Send or receive a datagram between processes; false: the other end is closed or silent. */
bool federation_send(int fd, const fed_writer *w);
bool federation_receive(int fd, fed_writer *w);

/** The first byte of a message. In a device's request, after FEDERATION_ASK: u8 front, u8 named,
 * fingerprint[32], the strings method, path, query, bearer, Range and If-Range, and the body. */
enum {
    FEDERATION_ASK = 'A',
    FEDERATION_STEP = 'S',
    FEDERATION_ENROL = 'E',
    FEDERATION_DONE = 'D',
    FEDERATION_QUIT = 'Q'
};

/** Enrol every device. Later runs begin with the files that this function leaves. */
void federation_enrol(federation_setup *setup);

/** Check that no name in the directory contains `mark` (D6 of docs/durability.md). */
void federation_check_leftovers(federation *f, const char *directory, const char *mark);

/** Add to the history: a device was told of this version, or this update was acknowledged. */
void federation_report_version(federation *f, unsigned device, uint32_t version, uint64_t digest);
void federation_report_update(federation *f, unsigned device, const uint8_t *update, size_t len);

/** Note that a device with slots begins a training for this task. */
void federation_report_training(federation *f, unsigned device, uint64_t number, uint64_t task);

void federation_forget(federation *f);

/** After a run that ended early, check the history, except for the rules about rounds. */
void federation_judge_beginning(federation *f);

/** At the end of a run, check D1 to D5 of docs/durability.md, and the history. */
void federation_check(federation *f);

#endif
