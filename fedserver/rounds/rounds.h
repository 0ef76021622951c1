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
#include "fedserver/privacy/sampler.h"
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

/** Tell the closing's thread, if any, to stop, and wait for its end. Then free the closing with all
 * that it owns. NULL is allowed. */
void fedserver_closing_drop(fedserver_closing *closing);

/** What the row of a round that has settled its set says of a private task: fedserver_round_row. */
typedef struct fedserver_settled_set {
    double clip, sigma2, rho;
    uint8_t set_digest[FED_SHA256_SIZE];
    uint8_t noise_key[FEDSERVER_NOISE_KEY]; /* zeros: the noise is used up, or there is none */
} fedserver_settled_set;

/** A round that closes waits for its helper: rounds/openings.h. */
typedef struct fedserver_asking {
    bool waits;        /* the store has no opening of the round yet */
    char refusal[304]; /* what the helper said last, after "it refuses"; "": it did not refuse */
    bool spare;        /* the helper with the task's spare key has enrolled */
    int64_t say_ms;    /* when the log says again that the round waits, in Unix ms; 0: not set */
    uint64_t turn;     /* of rounds->turns, when it was asked last; 0: not yet */
    int64_t next_ms;   /* not before this time, in Unix ms; 0: at once */
    int64_t pause_ms;  /* the pause that ends at next_ms, which grows with each refusal */
} fedserver_asking;

/** Who took part in the rounds of a task that promises an epsilon: rounds/ledger.h. */
typedef struct fedserver_ledger {
    fedserver_marks taken; /* each device's participations */
    fedserver_marks last;  /* the round of its last one */
} fedserver_ledger;

/** Too few devices may take part in the open round: rounds/shortage.h. */
typedef struct fedserver_shortage {
    uint64_t left;     /* devices that may, when they were counted last */
    int64_t since_ms;  /* since when these are too few, in Unix ms; 0: they are not */
    int64_t looked_ms; /* when they were counted last */
} fedserver_shortage;

/** The class names of the devices that train a task: rounds/classes.h. */
typedef struct fedserver_classes {
    uint64_t digest; /* 0: no device has named its classes */
    int64_t device;  /* a device that has trained with these classes, to be named in the log */
    /* devices whose rows in the table of declines hold the digest; 0: none. Two, because a decline
     * of the device itself takes its row */
    int64_t rows[2];
} fedserver_classes;

/** The device's row holds the digest no longer. revoked: the device counts no more as one that has
 * trained with these classes. */
static inline void fedserver_classes_lose(fedserver_classes *c, int64_t device, bool revoked) {
    for (size_t k = 0; k < 2; k++) {
        c->rows[k] = c->rows[k] == device ? 0 : c->rows[k];
    }
    if (revoked && c->device == device) {
        c->device = c->rows[c->rows[0] == 0];
        c->digest = c->device != 0 ? c->digest : 0;
    }
}

/** A running task, or a finished task that is still in memory. */
typedef struct fedserver_training {
    fedserver_task task;
    fed_arch arch;
    uint64_t update_limit; /* the most bytes that an update of the task can have */
    const fedserver_intake *intake;
    fedserver_strategy strategy;
    float *state; /* the strategy's state; NULL: it has none, or a round closes */
    fedserver_round round;
    /* the sum of the updates that count now; size 0: no memory is allocated for it */
    fedserver_sum sum;
    fedserver_own_table own;
    fedserver_cohort cohort;
    /* rounds/turns.h: the turn of the devices drawn last (0: none), when they were drawn, and how
     * often since the slots became free */
    uint64_t turn;
    int64_t drawn_ms;
    fedserver_device **drawn; /* [drawn_count]: those devices; NULL: none */
    size_t drawn_count;
    uint32_t redraws;
    bool draws; /* devices are to be drawn at draws_ms, if there are free slots then */
    int64_t draws_ms;
    fedserver_lease_list leases;
    int64_t lease_ends_ms;    /* when to look for ended leases, in Unix ms; 0: at once */
    fedserver_marks declined; /* when each device declined the task, in Unix ms */
    fedserver_marks too_old;  /* 1: the coordinator declined for the device (rounds/too_old.h) */
    fedserver_marks unfit;    /* number of the device's updates refused in a row (rounds/unfit.h) */
    /* of a task with `apart`: which devices may rest, or do (eligible.h). Not stored */
    fedserver_marks rests;
    fedserver_marks shut_out; /* the last round that left out the device's update (shut_out.h) */
    fedserver_marks measured;
    fedserver_ledger ledger;
    fedserver_settled_set settled;
    fedserver_asking asking;
    fedserver_shortage shortage;
    fedserver_classes classes;
    uint64_t served; /* value of rounds->served at the task's last lease; 0: none yet */
    uint64_t memory_bytes;
    fedserver_versions versions;
    fedserver_downloads downloads;
    fedserver_blob *layout_blob; /* the bytes of GET /v1/layout; NULL: nobody has asked yet */
    /* [arch.layout.size]: the next version's values while fedserver_training_take runs, else
     * NULL */
    const float *given;
    /* SHA-256 of the values of a version, for the terms of private rounds (rounds/openings.h) */
    bool hashed;
    uint32_t hashed_version;
    uint8_t model_hash[FED_SHA256_SIZE];
    /* makes the next version; NULL: no version is being made */
    fedserver_closing *closing;
    fedserver_closing *tidying; /* frees the previous version; NULL: there is nothing to free */
} fedserver_training;

/* Most members cache what the store has, so a change is made in the store and in memory. After a
 * failure of the store, memory may be newer than the store. Then the owner frees this struct and
 * loads a new one. */
struct fedcodec_ring;
struct fedserver_rounds;

/** What opens the sum of a private round (rounds/masked.h). sums: uint32_t[fields], changed in
 * place. */
typedef fed_status fedserver_opening(struct fedserver_rounds *rounds,
                                     const fedserver_training *training,
                                     const struct fedcodec_ring *ring, uint32_t *sums,
                                     fed_error *err);

/** Keys of held requests that are to be handled again (fedserver_response.hold_key). */
typedef struct fedserver_wakes {
    uint64_t *keys;
    size_t count, cap;
} fedserver_wakes;

typedef struct fedserver_rounds {
    /* The owner sets the members down to `bell`, and fedserver_rounds_free does not free them. */
    const fedserver_store *store;
    void *db;
    const fed_log *log;
    const char *directory;
    const char *where;
    uint64_t term; /* the leader's term, for store->serve_term; 0: none */
    /* A thread makes the versions of models with at least this many values; 0: of no model. At its
     * end the thread writes a uint64_t 1 to the descriptor `bell`. Then fedserver_training_advance
     * must be called. */
    size_t apart_values;
    int bell;
    /* Opens the sum of a private round: rounds/masked.h. NULL: it needs no opening. */
    fedserver_opening *opening;
    const atomic_bool *stop; /* in such a thread: becomes true when it should end; NULL: never */

    fedserver_devices devices;
    /* [task_count]. A task keeps its address while it is in memory. */
    fedserver_training **tasks;
    size_t task_count;
    uint64_t memory_limit; /* bytes that the tasks in memory may take together; 0: no limit */
    uint64_t served;
    uint64_t turns; /* how many questions were asked of helpers */
    fedserver_counters counters;
    fedserver_object_cache object_cache;

    uint64_t epoch; /* grows when the coordinator is to answer all held requests again */
    fedserver_wakes wakes;
    uint64_t turn; /* number of the last turn of any task (rounds/turns.h) */
    uint64_t active;
    int64_t active_ms;
    bool asked; /* the current batch has a request to answer */

    bool queue_changed;
    uint64_t said_waits; /* the log has the reason why tasks up to this number wait */
    bool tasks_changed;  /* another process may have changed a task */
    bool paused;
    bool shrinks; /* the store may have free space to return to the file system */
    /* the most bytes that an update of any task ever started can have (rounds/update_limit.h) */
    uint64_t update_limit;

    int64_t saved_ms;
    bool saving; /* some lists of devices are still to be written to the store */
    size_t save_next;
} fedserver_rounds;

/** Free the tasks in memory and the devices. */
void fedserver_rounds_free(fedserver_rounds *rounds);

/** Append an empty task to those in memory. */
fed_status fedserver_rounds_append(fedserver_rounds *rounds,
                                   fedserver_training **training) FED_CHECKED;

void fedserver_rounds_remove(fedserver_rounds *rounds, fedserver_training *training);

/** Find a task in memory by its number. NULL: it is not in memory. */
fedserver_training *fedserver_rounds_task(const fedserver_rounds *rounds, uint64_t id);

/** The task that a status shows where no task is named: the running task with the largest priority,
 * or else the task that finished last. NULL: no task is in memory. */
fedserver_training *fedserver_rounds_front(const fedserver_rounds *rounds);

bool fedserver_training_runs(const fedserver_training *training);

bool fedserver_rounds_busy(const fedserver_rounds *rounds);

/** The open round as a row of the store. */
fedserver_round_row fedserver_round_row_of(const fedserver_training *training);

/** Store the task's open round as it is now. */
fed_status fedserver_round_save(fedserver_rounds *rounds, const fedserver_training *training,
                                fed_error *err) FED_CHECKED;

#endif
