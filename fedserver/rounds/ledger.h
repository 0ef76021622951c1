/* Counts in how many rounds each device takes part, where a task promises an epsilon, and makes the
 * noise of such rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEDGER_H
#define FEDSERVER_LEDGER_H

#include "fedcodec/ring.h"
#include "fedserver/rounds/rounds.h"

/*
 * S19 in docs/durability.md: a round is charged before it is released, and released once. The
 * steps:
 *
 *     fedserver_ledger_allows   before a lease, and when an update comes: is a participation left?
 *     fedserver_ledger_charge   in the transaction that settles the set: charges each device of it,
 *                               and draws the key of the round's noise
 *     fedserver_ledger_open     when the version is made: adds the noise to the sum, unless the
 *                               helper adds it
 *     fedserver_ledger_adapt    in the transaction that commits the round: the next round's clip,
 *                               if it follows a quantile
 *     fedserver_ledger_next     in the transaction that commits the round, which deletes the key
 *
 * The noise is a function of key and set. So a version that is made again, after a death, has the
 * same bits. Where no thread makes the version, all steps are one transaction, and a death undoes
 * them all. These functions do nothing to tasks that promise nothing.
 */

/** Read the task's ledger. FED_EFORMAT: it is that of a copy, and a person must say how many rounds
 * it does not know. */
fed_status fedserver_ledger_load(fedserver_rounds *rounds, fedserver_training *training,
                                 fed_error *err) FED_CHECKED;

/** Take what the row of the open round says of its set. */
void fedserver_ledger_resume(fedserver_training *training, const fedserver_round_row *row);

/** Has the device a participation left, and are its last one and the round that counts now `apart`
 * rounds apart? True for every task that promises nothing. */
bool fedserver_ledger_allows(const fedserver_training *training, int64_t device);

/** Charge a participation to each device of the round's set, which is settled now. A device that
 * was charged for an earlier attempt of the round is not charged again. FED_ESTATE: a device of the
 * set has none left. */
fed_status fedserver_ledger_charge(fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** Updates were left out of the settled set (rounds/left_out.h), of which nothing was released:
 * name the rest, or forget the set if the round is open again. The charges stay. The caller stores
 * the round. */
fed_status fedserver_ledger_left_out(fedserver_training *training, fed_error *err) FED_CHECKED;

/** Add the noise to the opened sums of a round, all of it to each: uint32_t
 * sums[groups][ring->shape.all], which count modulo 2^w (rounds/masked.h). Only what training
 * and store have of the round is used, so a thread may call it. Where `apart` is above 1, the noise
 * is stored for the next rounds, in the table of openings. */
fed_status fedserver_ledger_open(fedserver_rounds *rounds, const fedserver_training *training,
                                 const fedcodec_ring *ring, uint32_t *sums,
                                 fed_error *err) FED_CHECKED;

/** In the transaction that commits the round: delete the correlated noise of rounds that no later
 * round needs; of all rounds, where this is the last one. */
fed_status fedserver_ledger_forget(fedserver_rounds *rounds, const fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/**
 * The clip of the next round of a task with clip_quantile: C exp(-0.2 (share - clip_quantile)),
 * from 1e-6 to 1e6. The caller stores the round, whose row has the clip. share: of the updates, how
 * many were at most C long, as their noisy count says; NaN: unknown, and the clip stays.
 *
 * Paper: Andrew et al., "Differentially private learning with adaptive clipping", 2021, section 3
 */
void fedserver_ledger_adapt(fedserver_training *training, double share);

/** The round is over. If no enrolled device has a participation left, this round becomes the task's
 * last one. */
fed_status fedserver_ledger_next(fedserver_rounds *rounds, fedserver_training *training,
                                 fed_error *err) FED_CHECKED;

#endif
