/* The PostgreSQL store: creates and upgrades its tables, and lists its functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fedserver/stores/layouts.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/postgres/pg_schema.h"
#include "fedserver/stores/sql/sql_rows.h"
#include "fedserver/stores/store.h"
#include "fedserver/stores/undone.h"

static const char *const layouts[][2] = FEDSERVER_PG_LAYOUTS;
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };
_Static_assert(LAYOUTS == FEDSERVER_PG_LAYOUT, "the newest layout is this program's");

static fed_status ask(fedserver_pg *db, const char *sql, long *number, fed_error *err) {
    PGresult *result;
    FED_TRY(fedserver_pg_script(db, sql, &result, err));
    const bool any = PQntuples(result) > 0 && PQgetisnull(result, 0, 0) == 0;
    *number = any ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : -1;
    PQclear(result);
    return FED_OK;
}

static fed_status read_layout(fedserver_pg *db, long *layout, fed_error *err) {
    long there;
    *layout = -1;
    FED_TRY(ask(db, "SELECT 1 WHERE to_regclass('fedserver.layout') IS NOT NULL", &there, err));
    return there == 1 ? ask(db, "SELECT version FROM fedserver.layout", layout, err) : FED_OK;
}

static fed_status step_up(fedserver_pg *db, long from, fed_error *err) {
    char sql[64];
    assert(from >= 0 && from < LAYOUTS); /* S8 in docs/durability.md: one layout at a time */
    snprintf(sql, sizeof sql, "UPDATE layout SET version = %ld", from + 1);
    for (int k = 0; k < 2 && layouts[from][k] != NULL; k++) {
        FED_TRY(fedserver_pg_script(db, layouts[from][k], NULL, err));
    }
    return fedserver_pg_script(db, sql, NULL, err);
}

/* Take the store's lock with a handle of its own, since a process of the older release may serve.
 * Then lock the row of `revision` until the commit, so that nobody writes beside the upgrade, and
 * notify all handles. */
static fed_status begin_upgrade(fedserver_pg *db, fedserver_pg **keeper, fed_error *err) {
    FED_TRY(fedserver_pg_connect(db->where, keeper, err));
    FED_TRY(fedserver_pg_pipeline(*keeper, err));
    FED_TRY(fedserver_pg_lock(*keeper, err));
    return fedserver_pg_script(db, "UPDATE revision SET number = number + 1; NOTIFY fedserver",
                               NULL, err);
}

/* Create or upgrade all tables in one transaction. So a new store appears whole (S7 in
 * docs/durability.md), and an upgrade is done whole or not at all (S8). Another process may have
 * done it already. */
static fed_status make_layouts(fedserver_pg *db, fed_error *err) {
    long layout = -1;
    fedserver_pg *keeper = NULL;
    FED_TRY(fedserver_pg_script(
        db, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('fedserver layout'))", NULL, err));
    fed_status status = read_layout(db, &layout, err);
    if (status == FED_OK && layout >= 0 && layout < LAYOUTS) {
        status = begin_upgrade(db, &keeper, err);
    }
    for (long from = layout < 0 ? 0 : layout; from < LAYOUTS && status == FED_OK; from++) {
        status = step_up(db, from, err);
    }
    if (status == FED_OK) {
        status = fedserver_pg_script(db, "COMMIT", NULL, err);
    }
    if (status != FED_OK) {
        const fed_status ignored = fedserver_pg_script(db, "ROLLBACK", NULL, NULL);
        (void)ignored;
    }
    fedserver_pg_close(keeper);
    return status;
}

static fed_status check_encoding(fedserver_pg *db, fed_error *err) {
    const char *encoding = PQparameterStatus(db->conn, "server_encoding");
    if (encoding != NULL && strcmp(encoding, "UTF8") != 0) {
        return fed_fail(err, FED_EINVAL,
                        "%s has the encoding %s, but UTF8 is needed; make a database with: "
                        "createdb --encoding=UTF8 --template=template0 NAME",
                        db->place, encoding);
    }
    return FED_OK;
}

static fed_status store_exists(const char *directory, const char *where, fed_error *err) {
    fedserver_pg *db;
    long layout = -1;
    (void)directory;
    FED_TRY(fedserver_pg_connect(where, &db, err));
    fed_status status = read_layout(db, &layout, err);
    if (status == FED_OK && layout < 0) {
        status = fed_fail(err, FED_ENOTFOUND, "%s holds no coordinator", db->place);
    }
    fedserver_pg_close(db);
    return status;
}

static fed_status store_create(const char *directory, const char *where, fed_error *err) {
    fedserver_pg *db;
    (void)directory;
    FED_TRY(fedserver_pg_connect(where, &db, err));
    fed_status status = check_encoding(db, err);
    status = status == FED_OK ? make_layouts(db, err) : status;
    fedserver_pg_close(db);
    return status;
}

static fed_status open_any(const char *where, fedserver_pg **out, long *layout, fed_error *err) {
    fedserver_pg *db;
    FED_TRY(fedserver_pg_connect(where, &db, err));
    fed_status status = read_layout(db, layout, err);
    if (status == FED_OK && *layout < 0) {
        status = fed_fail(err, FED_ENOTFOUND, "%s holds no coordinator", db->place);
    } else if (status == FED_OK && *layout > LAYOUTS) {
        status = fedserver_layout_newer(db->place, *layout, LAYOUTS, err);
    }
    if (status != FED_OK) {
        fedserver_pg_close(db);
        return status;
    }
    *out = db;
    return FED_OK;
}

static fed_status fail_older(fedserver_pg *db, long layout, fed_error *err) {
    const fedserver_older older = {.place = db->place,
                                   .release = "an older release",
                                   .layout = layout,
                                   .needed = LAYOUTS,
                                   .holder = fedserver_pg_holder(db)};
    return fedserver_layout_older(&older, err);
}

static fed_status store_open(const char *directory, const char *where, void **out, fed_error *err) {
    fedserver_pg *db;
    long layout;
    (void)directory;
    FED_TRY(open_any(where, &db, &layout, err));
    fed_status status = fedserver_pg_pipeline(db, err);
    if (status == FED_OK && layout < LAYOUTS) {
        status = fail_older(db, layout, err);
    }
    if (status != FED_OK) {
        fedserver_pg_close(db);
        return status;
    }
    *out = db;
    return FED_OK;
}

static fed_status store_upgrade(const char *directory, const char *where, fed_error *err) {
    fedserver_pg *db;
    long layout;
    (void)directory;
    FED_TRY(open_any(where, &db, &layout, err));
    const fed_status status = layout < LAYOUTS ? make_layouts(db, err) : FED_OK;
    assert(!db->writing); /* S8 in docs/durability.md: the upgrade is committed or rolled back. */
    fedserver_pg_close(db);
    return status;
}

static void store_close(void *db) {
    fedserver_pg_close(db);
}

static fed_status store_commit(void *db, fed_error *err) {
    return fedserver_pg_commit(db, err);
}

static void store_rollback(void *db) {
    fedserver_pg_rollback(db);
}

static bool store_writing(const void *db) {
    const fedserver_pg *pg = db;
    return pg->writing || fedserver_undone(&pg->base.undone);
}

/* PostgreSQL's notifications save a round trip for each batch, but may get lost. So the revision
 * is read every FEDSERVER_CHANGED_MS in any case. */
static fed_status store_changed(void *user, bool *changed, fed_error *err) {
    fedserver_pg *db = user;
    int64_t revision;
    const int64_t now_ms = fed_clock_monotonic_ms();
    const bool fresh = db->looked && now_ms - db->looked_ms < FEDSERVER_CHANGED_MS;
    if (fresh && db->locked && !fedserver_pg_notified(db)) {
        *changed = false;
        return FED_OK;
    }
    FED_TRY(fedserver_pg_revision(db, &revision, err));
    *changed = !db->looked || revision != db->revision;
    db->looked = true;
    db->looked_ms = now_ms;
    db->revision = revision;
    return FED_OK;
}

/* Nothing to do: PostgreSQL reuses free space by itself. */
static fed_status store_shrink(void *db, bool *left, fed_error *err) {
    (void)db, (void)err;
    *left = false;
    return FED_OK;
}

extern const fedserver_store fedserver_store_postgres;

const fedserver_store fedserver_store_postgres = {
    .name = "postgres",
    .alias = "postgresql",
    .where = "a connection string, as postgres://USER@HOST/DATABASE",
    /* a message of PostgreSQL's protocol has at most 2^30 bytes, and short columns need room */
    .row_limit = UINT64_C(1000000000),
    .exists = store_exists,
    .create = store_create,
    .open = store_open,
    .upgrade = store_upgrade,
    .close = store_close,
    .lock = fedserver_pg_lock,
    .lead = fedserver_pg_lead,
    .let_go = fedserver_pg_let_go,
    .serve_term = fedserver_pg_serve_term,
    .holder = fedserver_pg_holder,
    .check = fedserver_pg_check,
    .recover = fedserver_pg_recover,
    .commit = store_commit,
    .rollback = store_rollback,
    .writing = store_writing,
    .changed = store_changed,
    FEDSERVER_SQL_ROWS,
    .shrink = store_shrink,
    .blob_put = fedserver_pg_blob_put,
    .blob_sweep = fedserver_pg_blob_sweep,
    .blob_find = fedserver_pg_blob_find,
    .update_add = fedserver_pg_update_add,
    .update_each = fedserver_pg_update_each,
    .update_remove = fedserver_pg_update_remove,
    .update_clear = fedserver_pg_update_clear,
};
