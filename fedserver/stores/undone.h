/* Remembers the first failure of a store's transaction in a fed_error, whose status is FED_OK while
 * nothing has failed (S18 in docs/durability.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_UNDONE_H
#define FEDSERVER_STORES_UNDONE_H

#include <stdbool.h>

#include "fed/error.h"

/** Has a step of the transaction failed? Then nothing of the transaction will be kept. */
bool fedserver_undone(const fed_error *undone);

/** Fail with the remembered failure. FED_OK: nothing has failed. */
fed_status fedserver_undone_report(const fed_error *undone, fed_error *err) FED_CHECKED;

/** Note how a step of the transaction ended: `status`, with its sentence in *why. Returns status,
 * and copies the sentence to *err. The first failure of a transaction is remembered in *undone. */
fed_status fedserver_undone_note(fed_error *undone, fed_status status, const fed_error *why,
                                 fed_error *err) FED_CHECKED;

#endif
