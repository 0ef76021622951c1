/* Opens a coordinator: puts the server, the routes and the store together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OPEN_H
#define FEDSERVER_OPEN_H

#include "fed/log.h"
#include "fedserver/fedserver.h"
#include "fedserver/stores/store.h"

/** Open a coordinator like fedserver_open. `store`, if not NULL, replaces the functions of the
 * directory's store and works on the same data. Tests inject faults this way. */
fed_status fedserver_open_store(const char *directory, const fedserver_store *store,
                                const fed_log *log, fedserver **server, fed_error *err) FED_CHECKED;

#endif
