/* A new connection to the store, made in a thread: with a database that is silent it takes half a
 * minute. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_REOPENING_H
#define FEDSERVER_REOPENING_H

#include <stdbool.h>

#include "fedserver/stores/store.h"

typedef struct fedserver_reopening fedserver_reopening;

/** Close the handle `old`, also after an error, then open another one. directory, where: as of the
 * store's open; they must outlive the thread. Errors: FED_ENOMEM, FED_EIO (no thread). */
fed_status fedserver_reopening_begin(const fedserver_store *store, const char *directory,
                                     const char *where, void *old, fedserver_reopening **reopening,
                                     fed_error *err) FED_CHECKED;

/** May fedserver_reopening_end be called without a wait? */
bool fedserver_reopening_ended(const fedserver_reopening *reopening);

/** Wait for the thread, and free all but the handle, which is then the caller's. Errors: those of
 * the store's open. */
fed_status fedserver_reopening_end(fedserver_reopening *reopening, void **db,
                                   fed_error *err) FED_CHECKED;

#endif
