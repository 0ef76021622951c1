/* Opens a new connection to the store in a thread, because that can take half a minute if the
 * database does not answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_REOPENING_H
#define FEDSERVER_REOPENING_H

#include <stdbool.h>

#include "fedserver/stores/store.h"

typedef struct fedserver_reopening fedserver_reopening;

/** Start a thread that closes the handle `old` and opens another one. directory, where: the
 * arguments of the store's open; they must outlive the thread. `old` is closed after an error,
 * too. Errors: FED_ENOMEM, FED_EIO (no thread). */
fed_status fedserver_reopening_begin(const fedserver_store *store, const char *directory,
                                     const char *where, void *old, fedserver_reopening **reopening,
                                     fed_error *err) FED_CHECKED;

/** Has the thread ended, so that fedserver_reopening_end returns at once? */
bool fedserver_reopening_ended(const fedserver_reopening *reopening);

/** Wait for the thread, and free everything but the new handle *db, which the caller then owns.
 * Errors: those of the store's open. */
fed_status fedserver_reopening_end(fedserver_reopening *reopening, void **db,
                                   fed_error *err) FED_CHECKED;

#endif
