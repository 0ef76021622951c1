/* Keeps track of whether another program holds the store's database. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HELD_H
#define FEDSERVER_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/log.h"
#include "fedserver/stores/store.h"

/** How long the first batch that finds the database held waits for it. */
enum { FEDSERVER_HELD_WAIT_MS = 2000 };

typedef struct fedserver_held {
    int64_t since_ms; /* since when the database is held, by the monotonic clock; 0: it is free */
} fedserver_held;

/** Reserve the database for the batch that begins, so that no write of the batch can fail with
 * FED_EBUSY. Returns FED_OK also if another program holds the database: see fedserver_is_held. The
 * first batch that finds it held waits for up to FEDSERVER_HELD_WAIT_MS; the next ones do not. */
fed_status fedserver_held_reserve(fedserver_held *held, const fedserver_store *store, void *db,
                                  const fed_log *log, fed_error *err) FED_CHECKED;

/** The database is held, for the reason *why: log it, if it was free before. */
void fedserver_held_note(fedserver_held *held, const fed_log *log, const fed_error *why);

/** The database is free: log it, if it was held. */
void fedserver_held_end(fedserver_held *held, const fed_log *log);

static inline bool fedserver_is_held(const fedserver_held *held) {
    return held->since_ms != 0;
}

#endif
