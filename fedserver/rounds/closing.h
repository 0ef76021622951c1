/* A round that closes: from its settled set of updates to the next version, beside all else. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLOSING_H
#define FEDSERVER_CLOSING_H

#include "fedserver/rounds/rounds.h"

/*
 * A closing takes three steps:
 *
 *     fedserver_closing_begin     takes what the round has: sum, residual, the strategy's state
 *     fedserver_closing_make      makes the next version beside the old one, and keeps it as blobs
 *     fedserver_closing_take      gives all of it back to the training
 *     fedserver_closing_tidy      frees the old version and deletes its files
 *
 * A small version is made at once, in the thread and the transaction that settled the round. Its
 * bytes go into rows. A large one is made by a thread of its own, with a handle of its own on the
 * store, once the transaction is committed that settled the round (fedserver_closing_start). Until
 * the thread hands the version over, it owns what `begin` took. The old version stays with the
 * training: both only read it. If the process ends before the rows name the new version, the next
 * one finds the round closing, and makes the same version again, to the bit (D3).
 *
 * Memory: the values once more, and what any commit needs. Asynchronous: a second sum, as soon as
 * an update comes for the next round.
 */

/** What a closing has made. Valid until fedserver_closing_take has handed it over. */
typedef struct fedserver_closed {
    fedserver_weights weights;
    fedserver_own_table own;    /* what the round's updates report of their own */
    uint32_t updates;           /* of the round */
    uint64_t samples, bytes;    /* of the updates */
    fedserver_versions version; /* the next one */
    size_t part_len;            /* of its delta */
    /* The store has its values, residual and state as blobs. */
    bool kept;
    uint64_t residual_digest, state_digest;
    const float *state; /* the strategy's after this version; NULL: it has none */
    size_t state_len;   /* bytes */
    bool part_kept;     /* and the delta */
    bool old_kept;      /* the store has the values of the version before as a blob */
    /* snapshots that devices are going to ask for, as they have asked for those of the version
     * before */
    fedserver_made snapshots[FEDSERVER_SNAPSHOTS];
} fedserver_closed;

/** Take the round's settled set. The round closes; its sum is complete.
 * Owner: training->closing, until fedserver_closing_take or fedserver_closing_drop. */
fed_status fedserver_closing_begin(fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** Make the version in a thread of its own? */
bool fedserver_closing_apart(const fedserver_rounds *rounds, const fedserver_training *training);

/** Make the version now, in this thread and with this handle of the store. */
fed_status fedserver_closing_make(fedserver_rounds *rounds, fedserver_closing *closing,
                                  fed_error *err) FED_CHECKED;

/** Start the thread, unless it was started before. What the round's transaction wrote is committed.
 * Where the system gives no thread, this is logged, and to be called again. */
void fedserver_closing_start(fedserver_rounds *rounds, fedserver_closing *closing);

/** Has the thread ended? *status and *err are its result. False: it has not, or never started. */
bool fedserver_closing_done(fedserver_closing *closing, fed_status *status, fed_error *err);

/** What was made, after success. */
fedserver_closed *fedserver_closing_result(fedserver_closing *closing);

/** The version is stored: the training gets it in place of the old one, and its sum, empty.
 * What a thread has made, a thread frees: training->tidying has the old version. */
void fedserver_closing_take(fedserver_training *training);

/** Start the thread that frees the old version, and deletes the blobs that no row names any more.
 * What the round's transaction wrote is committed. Should it not start, the next closing frees. */
void fedserver_closing_tidy(fedserver_closing *closing);

/** The stored versions of the task. */
fedserver_archive fedserver_rounds_archive(const fedserver_rounds *rounds,
                                           const fedserver_training *training);

#endif
