/* The program fedserver with a planted fault, named by FED_PLANT, which tests must find. The
 * linker's option --wrap replaces functions by those of this file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/http/http_exchange.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/sql/sql_calls.h"

static bool planted(const char *fault) {
    const char *name = getenv("FED_PLANT");
    return name != NULL && strcmp(name, fault) == 0;
}

/* Fault "answers-early": updates are acknowledged before they are committed. */
static bool counts;

fed_status __real_fedserver_pg_update_add(void *db, const fedserver_update_row *row,
                                          const uint8_t *body, size_t len, fed_error *err);
fed_status __wrap_fedserver_pg_update_add(void *db, const fedserver_update_row *row,
                                          const uint8_t *body, size_t len, fed_error *err);

fed_status __wrap_fedserver_pg_update_add(void *db, const fedserver_update_row *row,
                                          const uint8_t *body, size_t len, fed_error *err) {
    counts = true;
    return __real_fedserver_pg_update_add(db, row, body, len, err);
}

fed_status __real_fedserver_pg_commit(fedserver_pg *db, fed_error *err);
fed_status __wrap_fedserver_pg_commit(fedserver_pg *db, fed_error *err);

fed_status __wrap_fedserver_pg_commit(fedserver_pg *db, fed_error *err) {
    if (planted("answers-early") && counts) {
        counts = false;
        return FED_OK;
    }
    return __real_fedserver_pg_commit(db, err);
}

/* Fault "forgets": a new leader does not read the open round's updates back. */
fed_status __real_fedserver_stored_load(const fedserver_rounds *rounds, fedserver_training *t,
                                        uint32_t round, fed_error *err);
fed_status __wrap_fedserver_stored_load(const fedserver_rounds *rounds, fedserver_training *t,
                                        uint32_t round, fed_error *err);

fed_status __wrap_fedserver_stored_load(const fedserver_rounds *rounds, fedserver_training *t,
                                        uint32_t round, fed_error *err) {
    return planted("forgets") ? FED_OK : __real_fedserver_stored_load(rounds, t, round, err);
}

/* Fault "answers-itself": a follower acknowledges an update although its connection to the leader
 * broke. */
void __real_http_forward_lost(void *user, void *owner);
void __wrap_http_forward_lost(void *user, void *owner);

void __wrap_http_forward_lost(void *user, void *owner) {
    http_exchange *x = owner;
    if (planted("answers-itself") && strcmp(x->request.path, "/v1/update") == 0) {
        x->carried = 0;
        x->response = (fedserver_response){.status = 200};
        http_release(user, x);
        return;
    }
    __real_http_forward_lost(user, owner);
}

/* Fault "no-fence": a coordinator becomes the leader, but an earlier leader can still write. */
fed_status __real_fedserver_pg_lock_try(void *user, bool *taken, fed_error *err);
fed_status __wrap_fedserver_pg_lock_try(void *user, bool *taken, fed_error *err);
fed_status __real_fedserver_sql_count(void *db, int sql, const fedserver_value *values, int count,
                                      int64_t *result, fed_error *err);
fed_status __wrap_fedserver_sql_count(void *db, int sql, const fedserver_value *values, int count,
                                      int64_t *result, fed_error *err);
extern const fedserver_engine __real_fedserver_pg_engine;
extern fedserver_engine __wrap_fedserver_pg_engine;

fedserver_engine __wrap_fedserver_pg_engine;

static fed_status is_overdue(void *db, bool *overdue, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(READ(LEAD_WHO, &row, INT(0)));
    FED_TRY(fedserver_sql_row_next(&row, &found, err));
    *overdue = found && fedserver_sql_row_int(&row, 0) > 0 && fedserver_sql_row_int(&row, 2) == 0;
    if (found) {
        fedserver_sql_row_end(&row);
    }
    return FED_OK;
}

fed_status __wrap_fedserver_pg_lock_try(void *user, bool *taken, fed_error *err) {
    fedserver_pg *db = user;
    FED_TRY(__real_fedserver_pg_lock_try(user, taken, err));
    if (planted("no-fence") && !*taken) {
        FED_TRY(is_overdue(user, taken, err));
        db->locked = *taken;
    }
    return FED_OK;
}

fed_status __wrap_fedserver_sql_count(void *db, int sql, const fedserver_value *values, int count,
                                      int64_t *result, fed_error *err) {
    if (planted("no-fence") &&
        (sql == FEDSERVER_SQL_LEAD_END_OLDER || sql == FEDSERVER_SQL_LEAD_END_OVERDUE)) {
        *result = 0;
        return FED_OK;
    }
    return __real_fedserver_sql_count(db, sql, values, count, result, err);
}

/* Write without the leader's term, so that the store does not reject an old leader's write. */
static fed_status write_unfenced(void *db, int sql, const fedserver_value *values, int count,
                                 fedserver_written *written, fed_error *err) {
    fedserver_pg *pg = db;
    const uint64_t term = pg->term;
    pg->term = planted("no-fence") ? 0 : term;
    const fed_status status =
        __real_fedserver_pg_engine.write(db, sql, values, count, written, err);
    pg->term = term;
    return status;
}

__attribute__((constructor)) static void plant_engine(void) {
    __wrap_fedserver_pg_engine = __real_fedserver_pg_engine;
    __wrap_fedserver_pg_engine.write = write_unfenced;
}
