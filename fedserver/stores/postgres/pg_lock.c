/* The store's lock, an advisory lock of a PostgreSQL connection, which ends with the process (S6 in
 * docs/durability.md). Also checks that the server's settings keep acknowledged updates (D1). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "fed/clock.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_host.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/sql/sql_calls.h"

/* the two halves of the lock's number, "FedS" and "lock" */
static const int64_t lock_high = 0x46656453, lock_low = 0x6c6f636b;

enum { DEAD_MS = 5000, AGAIN_MS = 20 };

typedef struct holder {
    char name[FEDSERVER_PG_NAME];
    long process;
    bool here;
} holder;

static fed_status find_holder(fedserver_pg *db, holder *h, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    *h = (holder){.process = 0};
    FED_TRY(FIRST(LOCK_HOLDER, &row, &found, INT(lock_high), INT(lock_low)));
    if (found) {
        fedserver_sql_row_text(&row, 0, h->name, sizeof h->name);
        fedserver_pg_name_read(h->name, &h->process, &h->here);
        fedserver_sql_row_end(&row);
    }
    return FED_OK;
}

static bool is_dead(const holder *h) {
    return h->name[0] == '\0' || (h->here && kill((pid_t)h->process, 0) != 0 && errno == ESRCH);
}

typedef struct settings {
    bool fsync, full_page_writes, standby, checksums;
} settings;

static fed_status read_settings(fedserver_pg *db, settings *s, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(fedserver_sql_first(db, FEDSERVER_SQL_SETTINGS, NO_VALUES, &row, &found, err));
    *s = (settings){.fsync = fedserver_sql_row_int(&row, 0) != 0,
                    .full_page_writes = fedserver_sql_row_int(&row, 1) != 0,
                    .standby = fedserver_sql_row_int(&row, 2) != 0,
                    .checksums = fedserver_sql_row_int(&row, 3) != 0};
    fedserver_sql_row_end(&row);
    return FED_OK;
}

/* D1 in docs/durability.md: an acknowledged update is not lost. An operator who names several
 * servers wants to go on when one of them is lost. Only a synchronous standby then has every
 * acknowledged update. */
static fed_status check_promises(const fedserver_pg *db, const settings *s, fed_error *err) {
    if (!s->fsync) {
        return fed_fail(err, FED_EINVAL,
                        "%s has fsync off: a power cut could lose acknowledged updates, or the "
                        "database; set fsync = on in postgresql.conf and reload the server",
                        db->place);
    }
    if (db->several && !s->standby) {
        return fed_fail(err, FED_EINVAL,
                        "%s: the connection string names several servers, and this one has no "
                        "synchronous standby: after a failover acknowledged updates would be "
                        "missing; set synchronous_standby_names, or name one server only",
                        db->place);
    }
    return FED_OK;
}

void fedserver_pg_unlock(void *user) {
    fedserver_pg *db = user;
    int64_t unused;
    if (db->locked && !db->lost) {
        const fed_status ignored =
            fedserver_sql_count(db, FEDSERVER_SQL_LOCK_END, NO_VALUES, &unused, NULL);
        (void)ignored;
    }
    db->locked = false;
}

fed_status fedserver_pg_lock_try(void *user, bool *taken, fed_error *err) {
    fedserver_pg *db = user;
    int64_t got;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LOCK_TRY, VALUES(INT(lock_high << 32 | lock_low)),
                                &got, err));
    /* S6 in docs/durability.md: the lock is taken before the first write. */
    assert(!db->writing || db->lost);
    *taken = db->locked = got != 0;
    if (!db->locked) {
        return FED_OK;
    }
    settings s;
    fed_status status = read_settings(db, &s, err);
    status = status == FED_OK ? check_promises(db, &s, err) : status;
    if (status != FED_OK) {
        fedserver_pg_unlock(db);
        return status;
    }
    return fedserver_sql_count(db, FEDSERVER_SQL_LISTEN, NO_VALUES, &got, err);
}

/* A dead process's lock is free once the server notices that its connection has ended, which takes
 * milliseconds. So wait for a holder that is known to be dead, and fail at once for any other. */
fed_status fedserver_pg_lock(void *user, fed_error *err) {
    fedserver_pg *db = user;
    const int64_t end_ms = fed_clock_monotonic_ms() + DEAD_MS;
    bool taken = db->locked;
    while (!taken) {
        holder h;
        FED_TRY(fedserver_pg_lock_try(db, &taken, err));
        if (taken) {
            break;
        }
        FED_TRY(find_holder(db, &h, err));
        if (!is_dead(&h) || fed_clock_monotonic_ms() > end_ms) {
            return fed_fail(err, FED_EBUSY,
                            "%s is being served by process %ld already (%s); stop that process "
                            "first",
                            db->place, h.process, h.name);
        }
        fed_sleep_ms(AGAIN_MS);
    }
    assert(db->locked); /* S6 in docs/durability.md: only this process runs rounds. */
    return FED_OK;
}

long fedserver_pg_holder(void *db) {
    holder h;
    const fed_status status = find_holder(db, &h, NULL);
    return status == FED_OK ? h.process : 0;
}

fed_status fedserver_pg_check(void *user, fedserver_checker *checker, fed_error *err) {
    fedserver_pg *db = user;
    settings s;
    size_t bodies = 0;
    size_t blobs = 0;
    FED_TRY(read_settings(db, &s, err));
    if (!s.full_page_writes) {
        fedserver_check_note(checker, FEDSERVER_NOTED,
                             "D1: %s has full_page_writes off: a power cut may leave half-written "
                             "pages, unless its file system prevents it",
                             db->place);
    }
    if (!s.checksums) {
        fedserver_check_note(checker, FEDSERVER_NOTED,
                             "S1: %s has no data checksums: damaged pages may go unnoticed",
                             db->place);
    }
    fedserver_check_note(checker, FEDSERVER_CHECKED, "D1: %s keeps %s", db->place,
                         s.standby
                             ? "acknowledged updates on a synchronous standby too"
                             : "one copy: without a synchronous standby, its disk is the only "
                               "one that has an acknowledged update");
    FED_TRY(fedserver_pg_updates_check(db, checker, &bodies, err));
    FED_TRY(fedserver_pg_blobs_check(db, checker, &blobs, err));
    fedserver_check_note(checker, FEDSERVER_CHECKED,
                         "S9: %zu bodies of updates and their guards, %zu blobs and their digests",
                         bodies, blobs);
    return FED_OK;
}
