/* Voids the open round of a private task whose stored updates no helper can open any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_VOIDS_H
#define FEDSERVER_VOIDS_H

#include "fedserver/rounds/rounds.h"

/**
 * Void the open round of a task that was just loaded, if its stored updates were sealed under other
 * terms than the present ones. That is so after a restore and after `fedserver reopen`, which give
 * the task another generation. A helper refuses such updates for ever. They are dropped, which is
 * the one exception from D1 in docs/durability.md besides a restored ledger's. The round opens
 * again with its next attempt, and its devices get new leases and the new terms. An update that is
 * sent again is refused, so its device still owes it.
 *
 * A round whose opening is stored is left alone: it only has to commit. Writes the store.
 */
fed_status fedserver_round_refresh(fedserver_rounds *rounds, fedserver_training *training,
                                   int64_t now_ms, fed_error *err) FED_CHECKED;

#endif
