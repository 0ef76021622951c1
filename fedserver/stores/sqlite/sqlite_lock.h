/* The lock on server.lock: only one process serves a coordinator's directory (S6 in
 * docs/durability.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_LOCK_H
#define FEDSERVER_STORES_SQLITE_LOCK_H

#include "fedserver/stores/sqlite/database.h"

fed_status fedserver_sqlite_lock(void *user, fed_error *err) FED_CHECKED;
long fedserver_sqlite_holder(void *user);

#endif
