/* Leaves updates out of a round that closes, whose seals its helper can't open. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEFT_OUT_H
#define FEDSERVER_LEFT_OUT_H

#include "fedserver/private_opening.h"
#include "fedserver/rounds/rounds.h"

/**
 * Delete the updates that a reply with the word "seals" names, and add up the rest again. The log
 * names their devices, which get no slot of this round any more. Too few updates are left: the
 * attempt is abandoned, and what is left stays counted. Otherwise the round goes on closing, and
 * its helper is asked about the rest.
 *
 * All of it is in the transaction of the call (D1, S5 in docs/durability.md). *why says what is
 * wrong with the reply, and nothing has changed then. FED_EFORMAT: it is about another set.
 * FED_ERANGE: it names an update that the set does not have.
 */
fed_status fedserver_left_out_take(fedserver_rounds *rounds, fedserver_training *training,
                                   const fedserver_reply *reply, int64_t now_ms, fed_error *why,
                                   fed_error *err) FED_CHECKED;

#endif
