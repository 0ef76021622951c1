/*
 * Decides which of the coordinators that share this database leads.
 *
 * The leader has the store's lock (pg_lock.c), and a larger term than all earlier leaders. The
 * table `leader` has the leader's address, and the time when the lead ends. A thread with a
 * connection of its own, the pulse, renews the lead. The row of `revision` has the term, too: a
 * write of rows fails if the row of `revision` has another term.
 *
 * Each connection of a leader holds a shared advisory lock, the tag, whose number contains the
 * term. A new leader first writes its term, then ends the connections with tags of older terms.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/threads.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/sql/sql_calls.h"

/* Unit: ms. The leader renews its lead every RENEW_MS. AGAIN_MS is a pause. The other times
 * limit waits for the server. */
enum { RENEW_MS = 500, PULSE_MS = 5000, ASK_MS = 2000, ENDING_MS = 5000, AGAIN_MS = 20 };

/* The first half of the advisory lock's number, "FedT". The second half is the term. */
static const int64_t tag = 0x46656454;

struct fedserver_pg_pulse {
    fedserver_pg *db;
    int wake; /* an eventfd that tells the thread to end */
    pthread_t thread;
    atomic_bool ended;
    bool outdone;
    fed_status status;
    fed_error err;
};

static fed_status renew(fedserver_pg *db, bool *mine, fed_error *err) {
    int64_t rows;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LEAD_RENEW, VALUES(INT(db->term)), &rows, err));
    assert(rows <= 1); /* S6 in docs/durability.md: the table `leader` has one row. */
    *mine = rows == 1;
    return FED_OK;
}

static bool told_to_end(const fedserver_pg_pulse *p) {
    struct pollfd wake = {.fd = p->wake, .events = POLLIN};
    return poll(&wake, 1, RENEW_MS) > 0;
}

static void *beat(void *user) {
    fedserver_pg_pulse *p = user;
    bool mine = true;
    do {
        p->status = renew(p->db, &mine, &p->err);
    } while (mine && p->status == FED_OK && !told_to_end(p));
    p->outdone = !mine;
    if (p->outdone || p->status != FED_OK) {
        atomic_store(&p->ended, true);
    }
    return NULL;
}

/* Connect without synchronous commits: a renewal may be lost in a crash of the server. */
static fed_status connect_pulse(const char *where, fedserver_pg **db, fed_error *err) {
    FED_TRY(fedserver_pg_connect(where, db, err));
    fed_status status = fedserver_pg_script(*db, "SET synchronous_commit = off", NULL, err);
    status = status == FED_OK ? fedserver_pg_pipeline(*db, err) : status;
    if (status != FED_OK) {
        fedserver_pg_close(*db);
        return status;
    }
    (*db)->answer_ms = PULSE_MS;
    return FED_OK;
}

static fed_status start_pulse(fedserver_pg *db, fed_error *err) {
    /* S6 in docs/durability.md: this handle has taken the lead. */
    assert(db->pulse == NULL && db->locked && db->term != 0);
    fedserver_pg_pulse *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the thread that renews the lead");
    }
    fed_status status = connect_pulse(db->where, &p->db, err);
    if (status != FED_OK) {
        free(p);
        return status;
    }
    status = fedserver_pg_serve_term(p->db, db->term, err);
    p->wake = eventfd(0, EFD_CLOEXEC);
    if (status == FED_OK && (p->wake < 0 || !fed_thread_start(&p->thread, beat, p))) {
        status = fed_fail(err, FED_EIO,
                          "can't start the thread that renews the lead: allow more threads or "
                          "open files (ulimit -u, ulimit -n; TasksMax, LimitNOFILE)");
    }
    if (status != FED_OK) {
        fedserver_pg_close(p->db);
        (void)close(p->wake);
        free(p);
        return status;
    }
    db->pulse = p;
    return FED_OK;
}

static void stop_pulse(fedserver_pg *db) {
    fedserver_pg_pulse *p = db->pulse;
    const uint64_t once = 1;
    if (p == NULL) {
        return;
    }
    const ssize_t told = write(p->wake, &once, sizeof once);
    (void)told;
    (void)pthread_join(p->thread, NULL);
    fedserver_pg_close(p->db);
    (void)close(p->wake);
    free(p);
    db->pulse = NULL;
}

/* End the connections of earlier leaders, and wait until they are gone: they may lock rows. */
static fed_status end_older(fedserver_pg *db, fed_error *err) {
    const int64_t end_ms = fed_clock_monotonic_ms() + ENDING_MS;
    int64_t left;
    for (;;) {
        FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LEAD_END_OLDER,
                                    VALUES(INT(tag), INT(db->term)), &left, err));
        if (left == 0) {
            return FED_OK;
        }
        if (fed_clock_monotonic_ms() > end_ms) {
            return fed_fail(err, FED_EBUSY,
                            "%s: connections of the coordinator that led before are still open; "
                            "end them (pg_terminate_backend), or restart the database",
                            db->place);
        }
        fed_sleep_ms(AGAIN_MS);
    }
}

static fed_status write_term(fedserver_pg *db, const char *address, fed_error *err) {
    fedserver_written written = {0};
    fed_status status = WRITE_NOW(LEAD_TAKE, &written, TEXT(address));
    status = status == FED_OK ? WRITE(LEAD_FENCE, INT(written.id)) : status;
    if (status != FED_OK) { /* the transaction has no other writes */
        fedserver_pg_rollback(db);
        return status;
    }
    FED_TRY(fedserver_pg_commit(db, err));
    /* S6 in docs/durability.md: a later lead has a larger term. */
    assert(db->term < (uint64_t)written.id);
    db->term = (uint64_t)written.id;
    return FED_OK;
}

/* Take the lead. This handle has the store's lock, so no other process can take the lead. */
static fed_status take(fedserver_pg *db, const char *address, fed_error *err) {
    FED_TRY(write_term(db, address, err));
    FED_TRY(fedserver_pg_serve_term(db, db->term, err));
    FED_TRY(start_pulse(db, err));
    return end_older(db, err);
}

/* Read who leads; lead->address is "" if nobody does. If the process of a lead that is over still
 * has the lock, end its connections to free the lock. */
static fed_status see_leader(fedserver_pg *db, fedserver_lead *lead, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    int64_t ended;
    /* S6 in docs/durability.md: a handle with the lock leads, and does not ask. */
    assert(!db->locked);
    *lead = (fedserver_lead){.mine = false};
    FED_TRY(FIRST(LEAD_WHO, &row, &found, INT(tag)));
    if (!found) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the row of the table `leader` is gone; restore the database from a "
                        "backup",
                        db->place);
    }
    lead->term = (uint64_t)fedserver_sql_row_int(&row, 0);
    const bool stands = fedserver_sql_row_int(&row, 2) != 0;
    const bool tagged = fedserver_sql_row_int(&row, 3) != 0;
    if (stands && tagged) {
        fedserver_sql_row_text(&row, 1, lead->address, sizeof lead->address);
    }
    fedserver_sql_row_end(&row);
    return stands || !tagged ? FED_OK
                             : fedserver_sql_count(db, FEDSERVER_SQL_LEAD_END_OVERDUE,
                                                   VALUES(INT(tag)), &ended, err);
}

/* A follower waits for the server at most ASK_MS, because its devices wait meanwhile. */
static fed_status ask(fedserver_pg *db, bool *taken, fedserver_lead *lead, fed_error *err) {
    const int usual_ms = db->answer_ms;
    db->answer_ms = ASK_MS;
    fed_status status = fedserver_pg_lock_try(db, taken, err);
    if (status == FED_OK && !*taken) {
        status = see_leader(db, lead, err);
    }
    db->answer_ms = usual_ms;
    return status;
}

static void say_mine(const fedserver_pg *db, const char *address, fedserver_lead *lead) {
    *lead = (fedserver_lead){.mine = true, .term = db->term};
    strcpy(lead->address, address);
}

/* Does this handle still lead? A write may have failed before the thread that renews the lead
 * noticed the lead's end. */
static fed_status go_on(const fedserver_pg *db, const char *address, fedserver_lead *lead,
                        fed_error *err) {
    const fedserver_pg_pulse *p = db->pulse;
    *lead = (fedserver_lead){.mine = false};
    if (db->lost) {
        return fed_fail(err, FED_EIO, "%s: %s", db->place, db->why);
    }
    if (!db->outdone && !atomic_load(&p->ended)) {
        say_mine(db, address, lead);
        return FED_OK;
    }
    return db->outdone || p->outdone ? FED_OK : fed_fail(err, p->status, "%s", p->err.text);
}

fed_status fedserver_pg_lead(void *user, const char *address, fedserver_lead *lead,
                             fed_error *err) {
    fedserver_pg *db = user;
    bool taken;
    /* S6 in docs/durability.md: no transaction is open. */
    assert(!db->writing || db->lost);
    if (strlen(address) >= sizeof lead->address) {
        return fed_fail(err, FED_EINVAL,
                        "this coordinator's address, %.40s..., is longer than %zu bytes: give its "
                        "IP address and port",
                        address, sizeof lead->address - 1);
    }
    if (db->pulse != NULL) {
        return go_on(db, address, lead, err);
    }
    FED_TRY(ask(db, &taken, lead, err));
    if (!taken) {
        return FED_OK;
    }
    FED_TRY(take(db, address, err));
    /* S6 in docs/durability.md: this handle has the lock, and a thread renews its lead. */
    assert(db->locked && db->pulse != NULL);
    say_mine(db, address, lead);
    return FED_OK;
}

void fedserver_pg_let_go(void *user) {
    fedserver_pg *db = user;
    if (db->pulse != NULL) {
        stop_pulse(db);
        fedserver_pg_rollback(db);
        fedserver_pg_unlock(db);
    }
}

fed_status fedserver_pg_serve_term(void *user, uint64_t term, fed_error *err) {
    fedserver_pg *db = user;
    int64_t unused;
    int64_t newest;
    /* S6 in docs/durability.md: the term is known before the first write, which checks it. */
    assert(!db->writing);
    FED_TRY(
        fedserver_sql_count(db, FEDSERVER_SQL_LEAD_TAG, VALUES(INT(tag), INT(term)), &unused, err));
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LEAD_TERM, NO_VALUES, &newest, err));
    db->term = term;
    return newest == (int64_t)term ? FED_OK : fedserver_pg_fail_outdone(db, err);
}
