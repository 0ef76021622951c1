/* The state of the rounds in memory: the task that runs, its open round, and the devices. */
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
#include "fedserver/rounds/own_table.h"
#include "fedserver/rounds/round.h"
#include "fedserver/stores/store.h"
#include "fedserver/strategies/strategy.h"
#include "fedserver/versions/downloads.h"
#include "fedserver/versions/past.h"

/** A round that closes: rounds/closing.h. */
typedef struct fedserver_closing fedserver_closing;

/** The task that runs or, if no task runs, the task that ran last. */
typedef struct fedserver_training {
    bool loaded; /* false: no task has ever started; the other fields are empty */
    fedserver_task task;
    fed_arch arch;
    uint64_t update_limit; /* bytes of the largest update in any of its phases */
    fedserver_strategy strategy;
    float *state; /* the strategy's state after the newest version; NULL: it has none */
    fedserver_round round;
    /* the sum of the updates that count now; size 0: none has come, and it has no memory yet */
    fedserver_sum sum;
    fedserver_own_table own; /* what its updates report of their own */
    fedserver_cohort cohort; /* decides which devices may take the free slots */
    int64_t vacant_ms;       /* since when no lease stands; 0: a lease stands */
    int64_t lease_ends_ms;   /* when to look at the leases again; 0: at once */
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
    /* The owner of this struct sets the next seven. fedserver_rounds_free does not free them. */
    const fedserver_store *store;
    void *db;
    const fed_log *log;
    const char
        *directory;    /* the coordinator's: the store is opened there, temporary files lie there */
    const char *where; /* of the store, as for its open */
    /* From so many values on, a thread makes a new version; 0: none ever does. Then it writes 1 to
     * `bell` (8 bytes), and fedserver_training_advance is to be called. */
    size_t apart_values;
    int bell;

    fedserver_devices devices;
    fedserver_training training;
    fedserver_counters counters;

    uint64_t epoch;    /* grows whenever waiting devices should ask again */
    bool wake_due;     /* slots are free, and the epoch must move */
    int64_t woken_ms;  /* when the epoch moved last */
    bool any_declined; /* a device's declined_task is set */
    uint64_t active;   /* number of devices seen lately */
    int64_t active_ms; /* when active was counted */
    bool asked;        /* a request of the open batch waits for its answer */

    bool queue_changed; /* a task may be waiting to start */
    /* another process has changed a task: look at the tasks before the next batch */
    bool tasks_changed;
    bool shrinks; /* the store may have space to give back */
    /* of the tasks that are not in memory: their updates may still come (update_limit.h) */
    uint64_t update_limit;

    int64_t saved_ms; /* when the devices were written last */
    size_t save_next; /* the device at which writing goes on; 0: all are written */
} fedserver_rounds;

void fedserver_training_free(fedserver_training *training);

/** Free the task in memory and the devices. */
void fedserver_rounds_free(fedserver_rounds *rounds);

/** The open round as the store keeps it. */
fedserver_round_row fedserver_round_row_of(const fedserver_training *training);

/** Store the open round as it is now. */
fed_status fedserver_round_save(fedserver_rounds *rounds, const fedserver_training *training,
                                fed_error *err) FED_CHECKED;

/** The stored versions of the task in memory. */
fedserver_archive fedserver_rounds_archive(const fedserver_rounds *rounds,
                                           const fedserver_training *training);

#endif
