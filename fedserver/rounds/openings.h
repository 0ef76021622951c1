/* Private rounds with a helper: what devices signed, what the helper is asked, its reply. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OPENINGS_H
#define FEDSERVER_OPENINGS_H

#include "fedserver/private_opening.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/rounds/rounds.h"

/*
 * A round of a task with a helper stays in CLOSING until the store has the helper's opening: the
 * sum of the masks of the round's set of updates. The set was settled in the transaction that began
 * the closing (S5 in docs/durability.md), so the helper is asked the same question after each
 * restart, by each leader. The opening is stored before the version is made, and deleted with the
 * round's updates. What the helper can't open leaves the set (rounds/left_out.h).
 */

/** The terms of the round that is open. *terms is the training's until its version changes. */
void fedserver_openings_terms(fedserver_training *t, fed_private_terms *terms);

/** Read what stands between the first byte of an update's envelope and its fields. FED_EFORMAT:
 * damaged bytes. */
fed_status fedserver_openings_read(const fedserver_update *update, fed_private *sealed) FED_CHECKED;

/**
 * Check what an update says to the helper, after intake->open: that the device with this
 * fingerprint signed it for its lease, under the round's terms. FED_EFORMAT: *why is a text for the
 * device. A task without a helper passes.
 */
fed_status fedserver_openings_check(fedserver_training *t,
                                    const uint8_t fingerprint[FED_SHA256_SIZE],
                                    const fedserver_update *update, fed_error *why) FED_CHECKED;

/** Set *awaits: does the round wait for its opening? Reads the store if the round is closing. */
fed_status fedserver_openings_await(fedserver_rounds *rounds, const fedserver_training *t,
                                    bool *awaits, fed_error *err) FED_CHECKED;

/**
 * May the helper be asked now? A round whose opening it refused is asked about again after a pause,
 * first of FEDSERVER_ASK_FIRST_MS, and twice as long each time, up to FEDSERVER_ASK_MOST_MS. So the
 * other tasks of that helper have their turns. After a restart of the coordinator, and about
 * another set, it is asked at once. Returns when it may be asked, in Unix ms; at most now_ms: now.
 */
enum { FEDSERVER_ASK_FIRST_MS = 1000, FEDSERVER_ASK_MOST_MS = 60000 };
int64_t fedserver_openings_ask_ms(const fedserver_training *training, int64_t now_ms);

/** The helper may be asked about this round now: if its request is held, it is answered now. No
 * other held request is. */
void fedserver_openings_wake(fedserver_rounds *rounds, const fedserver_training *training);

/** The helper's reply was no opening: ask again after a pause. */
void fedserver_openings_pause(fedserver_training *training, int64_t now_ms);

/** The helper refuses: keep its word and its sentence for people, and ask again after a pause. */
fed_status fedserver_openings_refuse(fedserver_rounds *rounds, fedserver_training *training,
                                     const fedserver_reply *reply, int64_t now_ms,
                                     fed_error *err) FED_CHECKED;

/** Read whether a round that was just loaded waits for its helper, and whether that refuses. */
fed_status fedserver_openings_load(fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** Write what a round that waits for its helper waits for, as a sentence that follows "waiting
 * for", cut to cap bytes. */
void fedserver_openings_report(const fedserver_training *training, char *dst, size_t cap);

/** Make the question of a round that closes, from the stored updates. Free it with
 * fedserver_inquiry_free. */
fed_status fedserver_openings_question(fedserver_rounds *rounds, fedserver_training *t,
                                       fedserver_inquiry *question, fed_error *err) FED_CHECKED;

/** Is the reply about the set of this question? FED_EFORMAT: *why says no. FED_ENOMEM. */
fed_status fedserver_openings_same_set(const fedserver_inquiry *question,
                                       const fedserver_reply *reply, fed_error *why) FED_CHECKED;

/** Store the masks that a helper sent for the round that closes. Refused unless they are for this
 * set, in this length: FED_EFORMAT, *why says so. */
fed_status fedserver_openings_take(fedserver_rounds *rounds, fedserver_training *t,
                                   const fedserver_reply *reply, fed_error *why,
                                   fed_error *err) FED_CHECKED;

/** fedserver_rounds.opening: take the masks off a sum. */
fed_status fedserver_openings_take_off(fedserver_rounds *rounds, const fedserver_training *training,
                                       const struct fedcodec_ring *ring, uint32_t *sums,
                                       fed_error *err) FED_CHECKED;

#endif
