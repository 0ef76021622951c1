/* The open round's updates: written with a guard, and read back one at a time. */
#include "fedserver/stores/sqlite/updates.h"

#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedserver/stores/sqlite/database.h"

fed_status fedserver_sqlite_update_add(void *db, const fedserver_update_row *row,
                                       const uint8_t *body, size_t len, fed_error *err) {
    return WRITE(UPDATE_ADD, INT(row->task), INT(row->round), INT(row->device), INT(row->lease),
                 INT(len), INT(fed_digest_bytes(body, len)), BLOB(NULL, 0), BLOB(body, len));
}

/* One update while it is walked over. Its bytes are its own, so that no statement stays open. */
typedef struct stored_update {
    int64_t id;
    fedserver_update_row row;
    size_t len, cap;
    uint64_t guard;
    bool guarded; /* releases before layout 4 stored no guard */
    uint8_t *body;
} stored_update;

static fed_status make_room(stored_update *u, fed_error *err) {
    if (u->len <= u->cap) {
        return FED_OK;
    }
    free(u->body);
    u->cap = 0;
    u->body = malloc(u->len);
    if (u->body == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for an update of %zu bytes", u->len);
    }
    u->cap = u->len;
    return FED_OK;
}

static fed_status take_row(sqlite3_stmt *row, stored_update *u, fed_error *err) {
    u->id = sqlite3_column_int64(row, 0);
    u->row = (fedserver_update_row){.task = (uint64_t)sqlite3_column_int64(row, 1),
                                    .round = (uint32_t)sqlite3_column_int64(row, 2),
                                    .device = sqlite3_column_int64(row, 3),
                                    .lease = (uint64_t)sqlite3_column_int64(row, 4)};
    u->guarded = sqlite3_column_type(row, 6) != SQLITE_NULL;
    u->guard = (uint64_t)sqlite3_column_int64(row, 6);
    const void *body = sqlite3_column_blob(row, 8);
    u->len = (size_t)sqlite3_column_bytes(row, 8);
    FED_TRY(make_room(u, err));
    if (u->len > 0) {
        memcpy(u->body, body, u->len);
    }
    return FED_OK;
}

static fed_status check_guard(const stored_update *u, fed_error *err) {
    if (!u->guarded || fed_digest_bytes(u->body, u->len) == u->guard) {
        return FED_OK;
    }
    return fed_fail(err, FED_EFORMAT,
                    "the stored update of device %lld in round %u of task %llu is damaged; restore "
                    "the directory from a backup",
                    (long long)u->row.device, u->row.round, (unsigned long long)u->row.task);
}

/* The update behind u->id, or none. */
static fed_status next_update(fedserver_database *db, stored_update *u, bool *more,
                              fed_error *err) {
    sqlite3_stmt *row;
    FED_TRY(READ(UPDATE_NEXT, &row, INT(u->id)));
    FED_TRY(fedserver_database_next(db, row, more, err));
    if (!*more) {
        return FED_OK;
    }
    fed_status status = take_row(row, u, err);
    sqlite3_reset(row);
    FED_TRY(status);
    return check_guard(u, err);
}

fed_status fedserver_sqlite_update_each(void *db, fedserver_update_visit visit, void *user,
                                        fed_error *err) {
    stored_update u = {0};
    bool more = true;
    fed_status status = next_update(db, &u, &more, err);
    while (status == FED_OK && more) {
        status = visit(user, &u.row, u.body, u.len, err);
        if (status == FED_OK) {
            status = next_update(db, &u, &more, err);
        }
    }
    free(u.body);
    return status;
}

fed_status fedserver_sqlite_update_clear(void *db, fed_error *err) {
    return fedserver_database_write(db, FEDSERVER_SQL_UPDATE_CLEAR, NO_VALUES, err);
}
