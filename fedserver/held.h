/* Waits while another program keeps the store's database for itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HELD_H
#define FEDSERVER_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/log.h"
#include "fedserver/stores/store.h"

/** How long a batch waits for the database before its requests are answered with 503. */
enum { FEDSERVER_HELD_WAIT_MS = 2000 };

typedef struct fedserver_held {
    int64_t since_ms; /* since when the database is held, by the monotonic clock; 0: it is free */
} fedserver_held;

/** Reserve the database for the batch that begins, so that no write of the batch can fail with
 * FED_EBUSY. The first batch that can't waits for FEDSERVER_HELD_WAIT_MS and logs why; the next
 * ones do not wait. FED_OK: see fedserver_is_held. */
fed_status fedserver_held_reserve(fedserver_held *held, const fedserver_store *store, void *db,
                                  const fed_log *log, fed_error *err) FED_CHECKED;

/** A write of a batch has failed with FED_EBUSY, for the reason *why. Log it, unless the log has
 * it already. */
void fedserver_held_note(fedserver_held *held, const fed_log *log, const fed_error *why);

/** The database is free: log it, if it was held. */
void fedserver_held_end(fedserver_held *held, const fed_log *log);

static inline bool fedserver_is_held(const fedserver_held *held) {
    return held->since_ms != 0;
}

#endif
