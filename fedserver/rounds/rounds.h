/* The state of the rounds in memory: the tasks that run, their open rounds, and the devices. */
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

/** End the closing without a result. Waits for the thread, which ends at its next step. Afterwards
 * the training is only good for fedserver_rounds_remove. NULL is fine. */
void fedserver_closing_drop(fedserver_closing *closing);

/** A task in memory: a task that runs, or one of those that finished last. */
typedef struct fedserver_training {
    fedserver_task task;
    fed_arch arch;
    uint64_t update_limit; /* bytes of the largest update in any of its phases */
    const fedserver_intake *intake;
    fedserver_strategy strategy;
    float *state; /* the strategy's state after the newest version; NULL: it has none */
    fedserver_round round;
    /* the sum of the updates that count now; size 0: none has come, and it has no memory yet */
    fedserver_sum sum;
    fedserver_own_table own;     /* what its updates report of their own */
    fedserver_cohort cohort;     /* decides which devices may take the free slots */
    fedserver_lease_list leases; /* each lease that stands is in it */
    int64_t lease_ends_ms;       /* when to look at the leases again; 0: at once */
    fedserver_marks declined;    /* when each device declined the task, in Unix milliseconds */
    fedserver_marks measured;    /* the version that each evaluating device measured last */
    uint64_t served;             /* rounds->served at the task's last lease; 0: it had none yet */
    uint64_t memory_bytes;       /* what the task takes while it runs: rounds/task_memory.h */
    fedserver_versions versions;
    fedserver_downloads downloads; /* answers made from the versions */
    /* [arch.layout.size]: the next version's values, in place of what the updates make; NULL. Set
     * within fedserver_training_take only */
    const float *given;
    /* makes the next version; it has the state and the residual meanwhile. NULL: no round closes */
    fedserver_closing *closing;
    fedserver_closing *tidying; /* frees the version before; NULL: there is nothing to free */
} fedserver_training;

/*
 * All but the counters is a cache of the store. One function makes a change both in the store and
 * in the cache. If the store fails, the cache may be newer than the store. Then the owner of this
 * struct throws the struct away and loads a new one.
 */
typedef struct fedserver_rounds {
    /* The owner of this struct sets the next eight. fedserver_rounds_free does not free them. */
    const fedserver_store *store;
    void *db;
    const fed_log *log;
    const char
        *directory;    /* the coordinator's: the store is opened there, temporary files lie there */
    const char *where; /* of the store, as for its open */
    uint64_t term;     /* threads write for that lead (serve_term of the store); 0: for none */
    /* From so many values on, a thread makes a new version; 0: none ever does. Then it writes 1 to
     * `bell` (8 bytes), and fedserver_training_advance is to be called. */
    size_t apart_values;
    int bell;

    fedserver_devices devices;
    /* [task_count], in the order in which they started. A task stays where it is until its end,
     * since other structs point into it */
    fedserver_training **tasks;
    size_t task_count;
    uint64_t memory_limit; /* bytes that the tasks in memory may take together; 0: no limit */
    uint64_t served;       /* leases given since the start, over all tasks */
    fedserver_counters counters;
    fedserver_object_cache object_cache; /* downloads that caches keep */

    uint64_t epoch;    /* grows whenever waiting devices should ask again */
    bool wake_due;     /* slots are free, and the epoch must move */
    int64_t woken_ms;  /* when the epoch moved last */
    uint64_t active;   /* number of devices seen lately */
    int64_t active_ms; /* when active was counted */
    bool asked;        /* a request of the open batch waits for its answer */

    bool queue_changed;  /* a task may be waiting to start */
    uint64_t said_waits; /* the log has the reason why tasks up to this number wait */
    /* another process has changed a task: look at the tasks before the next batch */
    bool tasks_changed;
    bool paused;  /* a task is paused, by a person or by its edge aggregator: not all tasks are over
                   */
    bool shrinks; /* the store may have space to give back */
    /* of all tasks that have started: updates of those that are over may still come, too
     * (update_limit.h) */
    uint64_t update_limit;

    int64_t saved_ms; /* when the devices were written last */
    bool saving;      /* not all lists of unsaved devices are written */
    size_t save_next; /* the list at which writing goes on */
} fedserver_rounds;

/** Free the tasks in memory and the devices. */
void fedserver_rounds_free(fedserver_rounds *rounds);

/** Make room for a task in memory, behind the others. The task's fields are 0. */
fed_status fedserver_rounds_append(fedserver_rounds *rounds,
                                   fedserver_training **training) FED_CHECKED;

/** Free the task's memory. */
void fedserver_rounds_remove(fedserver_rounds *rounds, fedserver_training *training);

/** The task of that number in memory. NULL: it is not in memory. */
fedserver_training *fedserver_rounds_task(const fedserver_rounds *rounds, uint64_t id);

/** The task to speak of where no other is named: of the tasks that run, the one with the largest
 * priority, and of equals the one that started first. If no task runs, the task that finished last.
 * NULL: no task is in memory. */
fedserver_training *fedserver_rounds_front(const fedserver_rounds *rounds);

bool fedserver_training_runs(const fedserver_training *training);

/** Does a task run? */
bool fedserver_rounds_busy(const fedserver_rounds *rounds);

/** The open round as the store keeps it. */
fedserver_round_row fedserver_round_row_of(const fedserver_training *training);

/** Store the task's open round as it is now. */
fed_status fedserver_round_save(fedserver_rounds *rounds, const fedserver_training *training,
                                fed_error *err) FED_CHECKED;

#endif
