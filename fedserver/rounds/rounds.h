/* The state of the rounds in memory: the running tasks, their open rounds, and the devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROUNDS_H
#define FEDSERVER_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fed/log.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/aggregate.h"
#include "fedserver/rounds/cohort.h"
#include "fedserver/rounds/counters.h"
#include "fedserver/rounds/lease_list.h"
#include "fedserver/rounds/marks.h"
#include "fedserver/rounds/own_table.h"
#include "fedserver/rounds/round.h"
#include "fedserver/stores/store.h"
#include "fedserver/strategies/strategy.h"
#include "fedserver/versions/downloads.h"
#include "fedserver/versions/object_cache.h"
#include "fedserver/versions/old_versions.h"

/** The form of a task's updates: rounds/intake.h. */
typedef struct fedserver_intake fedserver_intake;

/** A round that closes: rounds/closing.h. */
typedef struct fedserver_closing fedserver_closing;

/** End the closing without a result, and free it. Waits for its thread, which stops at its next
 * step. Afterwards the training can only be passed to fedserver_rounds_remove. NULL is allowed. */
void fedserver_closing_drop(fedserver_closing *closing);

/** A task in memory: a running task, or one of those that finished last. */
typedef struct fedserver_training {
    fedserver_task task;
    fed_arch arch;
    uint64_t update_limit; /* bytes of the largest update in any of its phases */
    const fedserver_intake *intake;
    fedserver_strategy strategy;
    float *state; /* the strategy's state after the newest version; NULL: it has none */
    fedserver_round round;
    /* the sum of the updates that count now; size 0: no update yet, and no memory for it */
    fedserver_sum sum;
    fedserver_own_table own;     /* custom metrics of the round's updates, summed up */
    fedserver_cohort cohort;     /* decides which devices may take the free slots */
    fedserver_lease_list leases; /* has each lease that still holds */
    int64_t lease_ends_ms;    /* when a lease may end next, in Unix milliseconds; 0: look at once */
    fedserver_marks declined; /* when each device declined the task, in Unix milliseconds */
    fedserver_marks too_old;  /* 1: the coordinator declined for the device: rounds/too_old.h */
    fedserver_marks unfit;    /* how many updates in a row were refused: rounds/unfit.h */
    fedserver_marks measured; /* the version that each evaluating device measured last */
    uint64_t served;          /* value of rounds->served at the task's last lease; 0: none yet */
    uint64_t memory_bytes;    /* what the task takes while it runs: rounds/task_memory.h */
    fedserver_versions versions;
    fedserver_downloads downloads; /* answers to downloads, made from the versions */
    /* [arch.layout.size]: the next version's values while fedserver_training_take runs, else
     * NULL */
    const float *given;
    /* makes the next version, and owns state and residual meanwhile; NULL: no round closes */
    fedserver_closing *closing;
    fedserver_closing *tidying; /* frees the previous version; NULL: there is nothing to free */
} fedserver_training;

/*
 * All members but the counters cache what the store has. One function makes a change both in the
 * store and in the cache. If the store fails, the cache may be newer than the store. Then the
 * owner of this struct frees it and loads a new one.
 */
typedef struct fedserver_rounds {
    /* The owner sets the next eight members, which fedserver_rounds_free does not free. */
    const fedserver_store *store;
    void *db;
    const fed_log *log;
    const char *directory; /* the coordinator's, with the store and temporary files */
    const char *where;     /* the store's WHERE, for store->open */
    uint64_t term;         /* the lead that threads write for (store->serve_term); 0: none */
    /* From this many values on a model gets its new versions from a thread; 0: no model does.
     * At its end the thread writes 1 (8 bytes) to the descriptor `bell`, and then
     * fedserver_training_advance must be called. */
    size_t apart_values;
    int bell;

    fedserver_devices devices;
    /* [task_count], in the order of starting. A task keeps its address: structs point into it. */
    fedserver_training **tasks;
    size_t task_count;
    uint64_t memory_limit; /* bytes that the tasks in memory may take together; 0: no limit */
    uint64_t served;       /* leases given since the start, over all tasks */
    fedserver_counters counters;
    fedserver_object_cache object_cache; /* files of downloads that HTTP caches serve */

    uint64_t epoch;    /* grows whenever the held check-ins should be handled again */
    bool wake_due;     /* slots became free, and the epoch must be raised */
    int64_t woken_ms;  /* when the epoch was raised last */
    uint64_t active;   /* number of devices seen lately */
    int64_t active_ms; /* when active was counted */
    bool asked;        /* the open batch has a request to answer */

    bool queue_changed;  /* a task may be waiting to start */
    uint64_t said_waits; /* the log already says why tasks up to this number wait */
    bool tasks_changed;  /* another process changed a task: look before the next batch */
    bool paused;         /* a person or an edge aggregator has paused a task */
    bool shrinks;        /* the store may have free space to return */
    /* largest update of all tasks ever started: such updates may still arrive (update_limit.h) */
    uint64_t update_limit;

    int64_t saved_ms; /* when the devices were written last */
    bool saving;      /* the devices are being stored list by list, and some lists are left */
    size_t save_next; /* the list with which writing continues */
} fedserver_rounds;

/** Free the tasks in memory and the devices. */
void fedserver_rounds_free(fedserver_rounds *rounds);

/** Add a task to those in memory, as the last one. All its members are 0. */
fed_status fedserver_rounds_append(fedserver_rounds *rounds,
                                   fedserver_training **training) FED_CHECKED;

void fedserver_rounds_remove(fedserver_rounds *rounds, fedserver_training *training);

/** Find a task in memory by its number. NULL: it is not in memory. */
fedserver_training *fedserver_rounds_task(const fedserver_rounds *rounds, uint64_t id);

/** The task that a status shows where no task is named: of the running tasks the one with the
 * largest priority, and among equals the one that started first. If no task runs, the task that
 * finished last. NULL: no task is in memory. */
fedserver_training *fedserver_rounds_front(const fedserver_rounds *rounds);

bool fedserver_training_runs(const fedserver_training *training);

bool fedserver_rounds_busy(const fedserver_rounds *rounds);

/** Make the stored form of the open round. */
fedserver_round_row fedserver_round_row_of(const fedserver_training *training);

/** Store the task's open round as it is now. */
fed_status fedserver_round_save(fedserver_rounds *rounds, const fedserver_training *training,
                                fed_error *err) FED_CHECKED;

#endif
