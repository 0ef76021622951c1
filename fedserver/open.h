/* Opens a coordinator: puts the server, the routes and the store together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OPEN_H
#define FEDSERVER_OPEN_H

#include "fed/log.h"
#include "fedserver/fedserver.h"
#include "fedserver/stores/store.h"

/** As fedserver_open, but with the functions of `store`, on the rows of the directory's store.
 * Tests inject faults this way. NULL: the directory's own store. */
fed_status fedserver_open_store(const char *directory, const fedserver_store *store,
                                const fed_log *log, fedserver **server, fed_error *err) FED_CHECKED;

#endif
