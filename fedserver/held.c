/* Reserves the database for a batch, and logs when another program holds it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/held.h"

#include "fed/clock.h"

void fedserver_held_note(fedserver_held *held, const fed_log *log, const fed_error *why) {
    if (fedserver_is_held(held)) {
        return;
    }
    held->since_ms = fed_clock_monotonic_ms();
    fed_logf(log, FED_LOG_WARN,
             "%s; until the database is free, requests are answered with 503, and devices try "
             "again",
             why->text);
}

void fedserver_held_end(fedserver_held *held, const fed_log *log) {
    if (fedserver_is_held(held)) {
        const int64_t held_ms = fed_clock_monotonic_ms() - held->since_ms;
        fed_logf(log, FED_LOG_INFO, "the database is free again after %.1f s, and serves requests",
                 1e-3 * (double)held_ms);
    }
    held->since_ms = 0;
}

fed_status fedserver_held_reserve(fedserver_held *held, const fedserver_store *store, void *db,
                                  const fed_log *log, fed_error *err) {
    if (store->reserve == NULL) {
        return FED_OK;
    }
    fed_error why = {0};
    const unsigned wait_ms = fedserver_is_held(held) ? 0 : FEDSERVER_HELD_WAIT_MS;
    const fed_status status = store->reserve(db, wait_ms, &why);
    if (status == FED_EBUSY) {
        fedserver_held_note(held, log, &why);
        return FED_OK;
    }
    FED_REQUIRE(status == FED_OK, fed_fail(err, status, "%s", why.text));
    fedserver_held_end(held, log);
    return FED_OK;
}
