/* Closes a round: makes the next version from its updates, in a thread if the model is large. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLOSING_H
#define FEDSERVER_CLOSING_H

#include "fedserver/rounds/rounds.h"

/*
 * The steps of a closing:
 *
 *     fedserver_closing_begin     takes sum, residual and strategy's state from the training
 *     fedserver_closing_make      makes the next version beside the old one
 *     fedserver_closing_take      gives all of it back to the training
 *     fedserver_closing_tidy      frees the old version and deletes unused blobs
 *
 * A small version is made at once, in the transaction that settled the round, and is stored in
 * rows. A large version is made by a thread (fedserver_closing_start), after that transaction was
 * committed. The thread has its own handle of the store, and stores the version's bytes as blobs.
 * Until it ends, it owns what `begin` took. The old version stays with the training, and both
 * only read it. If the process ends before the rows name the new version, the next process makes
 * the same version again, to the bit (D3 in docs/durability.md).
 *
 * Memory: a second copy of the model's values, and in asynchronous tasks a second sum.
 */

/** The results of a closing. Valid until fedserver_closing_take. */
typedef struct fedserver_closed {
    fedserver_weights weights;
    fedserver_own_table own;
    uint32_t updates;
    uint64_t samples, bytes;
    fedserver_versions version;
    size_t part_len; /* bytes of the delta that leads to this version */
    bool kept;       /* the store has the version's values, residual and state as blobs */
    uint64_t residual_digest, state_digest;
    const float *state; /* the strategy's state after this version; NULL: it has none */
    size_t state_len;
    bool part_kept; /* the store has the delta as a blob */
    bool old_kept;  /* the store has the previous version as a blob */
    /* snapshots of this version, of the kinds that devices asked for of the previous version */
    fedserver_made snapshots[FEDSERVER_SNAPSHOTS];
} fedserver_closed;

/** Begin to close the round, whose phase is CLOSING. Owner of the closing: training->closing, until
 * fedserver_closing_take or fedserver_closing_drop. */
fed_status fedserver_closing_begin(fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** Is a thread of its own to make the version? So it is where the model is large, and where the
 * strategy waits for another program. */
bool fedserver_closing_apart(const fedserver_rounds *rounds, const fedserver_training *training);

/** Make the version now, in the calling thread and with `rounds`' handle of the store. */
fed_status fedserver_closing_make(fedserver_rounds *rounds, fedserver_closing *closing,
                                  fed_error *err) FED_CHECKED;

/** Start the thread, unless it was started before. Call it after the commit of the transaction that
 * settled the round. If no thread can be started, this is logged, and the caller calls again
 * later. */
void fedserver_closing_start(fedserver_rounds *rounds, fedserver_closing *closing);

/** Has the thread ended? If so, *status and *err are its result. False where the thread never
 * started. */
bool fedserver_closing_done(fedserver_closing *closing, fed_status *status, fed_error *err);

/** The results of a closing that succeeded. */
fedserver_closed *fedserver_closing_result(fedserver_closing *closing);

/** Give the new version, and an empty sum, to the training, after the version's rows were written.
 * Where a thread has made the version, training->tidying keeps the old version for
 * fedserver_closing_tidy. */
void fedserver_closing_take(fedserver_training *training);

/** Start a thread that frees the old version, and deletes the blobs that no row names any more.
 * Call it after the commit of the round. */
void fedserver_closing_tidy(fedserver_closing *closing);

/** Access to the task's stored versions. */
fedserver_archive fedserver_rounds_archive(const fedserver_rounds *rounds,
                                           const fedserver_training *training);

#endif
