/* The state of the rounds in memory: the task that runs, its open round, and the devices. */
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
#include "fedserver/rounds/round.h"
#include "fedserver/stores/store.h"
#include "fedserver/strategies/strategy.h"
#include "fedserver/versions/downloads.h"
#include "fedserver/versions/past.h"

/** The task that runs or, where none does, the one that ran last. */
typedef struct fedserver_training {
    bool loaded; /* false: no task has ever started, and nothing below means anything */
    fedserver_task task;
    fed_arch arch;
    uint64_t update_limit; /* bytes of the largest update that any of its phases allows */
    fedserver_strategy strategy;
    float *state; /* the strategy's, after the newest version; NULL: it has none */
    fedserver_round round;
    fedserver_sum sum;       /* of the open round */
    fedserver_cohort cohort; /* who may take its free places */
    int64_t vacant_ms;       /* since when nobody has held a lease; 0: somebody does */
    int64_t lease_ends_ms; /* leases are looked at again then: the first of them ends, or may have;
                              0: at once */
    fedserver_versions versions;
    fedserver_downloads downloads; /* made of them */
} fedserver_training;

/*
 * All but the counters is a cache of the store. Every change is made in the store first or in the
 * same breath. Where the store fails, the cache may be ahead of it: whoever owns this struct throws
 * it away then, and loads a new one.
 */
typedef struct fedserver_rounds {
    /* what the rounds work with; lent, and set by the owner */
    const fedserver_store *store;
    void *db;
    const fed_log *log;
    const char *directory; /* for temporary files */

    fedserver_devices devices;
    fedserver_training training;
    fedserver_counters counters;

    uint64_t epoch;    /* grows whenever those who wait should ask again */
    bool wake_due;     /* slots are free: the epoch is to move, */
    int64_t woken_ms;  /* but not too soon after this */
    uint64_t active;   /* devices that were seen lately, */
    int64_t active_ms; /* counted at this time */
    bool asked;        /* a request of the open batch waits for its answer */

    bool queue_changed;    /* a task may be waiting to start */
    bool tasks_changed;    /* by another process: look before the next batch */
    bool shrinks;          /* the store may have space to give back */
    uint64_t update_limit; /* that of the task before the one in memory: its updates may come yet */

    int64_t saved_ms; /* when the devices were last looked through for what is to be saved; */
    size_t save_next; /* where that goes on; 0: it is done */
} fedserver_rounds;

void fedserver_training_free(fedserver_training *training);

/** Free the task in memory and the devices; nothing that was lent. */
void fedserver_rounds_free(fedserver_rounds *rounds);

/** The open round as the store keeps it. */
fedserver_round_row fedserver_round_row_of(const fedserver_training *training);

/** Write the open round down as it is now. */
fed_status fedserver_round_save(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** The stored versions of the task in memory. */
fedserver_archive fedserver_rounds_archive(const fedserver_rounds *rounds);

#endif
