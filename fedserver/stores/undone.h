/* What a handle remembers of the first failure within its transaction (S18, store.h): a fed_error,
 * whose status is FED_OK where nothing has failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_UNDONE_H
#define FEDSERVER_STORES_UNDONE_H

#include <stdbool.h>

#include "fed/error.h"

/** Has something failed, so that nothing of the transaction can be kept? */
bool fedserver_undone(const fed_error *undone);

/** Fail with the first reason; FED_OK where there is none. */
fed_status fedserver_undone_report(const fed_error *undone, fed_error *err) FED_CHECKED;

/** How a step of the transaction ended: returns `status`, with the sentence of *why in *err. A
 * failure is remembered if it is the first. */
fed_status fedserver_undone_note(fed_error *undone, fed_status status, const fed_error *why,
                                 fed_error *err) FED_CHECKED;

#endif
