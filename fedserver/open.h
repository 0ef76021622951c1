/* A coordinator, put together from its parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OPEN_H
#define FEDSERVER_OPEN_H

#include "fed/log.h"
#include "fedserver/fedserver.h"
#include "fedserver/stores/store.h"

/** fedserver_open with a store of one's own instead of the directory's, whose rows it uses: how the
 * tests inject faults. NULL: the directory's. */
fed_status fedserver_open_store(const char *directory, const fedserver_store *store,
                                const fed_log *log, fedserver **server, fed_error *err) FED_CHECKED;

#endif
