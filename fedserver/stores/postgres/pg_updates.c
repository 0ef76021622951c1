/* The updates of open rounds in PostgreSQL. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fed/hash.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/sql/sql_calls.h"

#define RECORD fedserver_update_row
static const fedserver_column update_columns[] = {UPDATE_COLUMNS(COLUMN, )};
#undef RECORD

/* Updates are read in pages of rows. A body longer than SMALL is read by a statement of its own,
 * so the bodies of a page take at most PAGE * SMALL bytes. */
enum { PAGE = 32, SMALL = 65536 };

fed_status fedserver_pg_update_add(void *db, const fedserver_update_row *row, const uint8_t *body,
                                   size_t len, fed_error *err) {
    /* S3 in docs/durability.md: an update belongs to a lease. */
    assert(row->lease != 0 && row->device != 0);
    fedserver_value values[COUNT(update_columns) + 2] = {
        [COUNT(update_columns)] = INT(fed_digest_bytes(body, len)),
        BLOB(len > 0 ? body : (const uint8_t *)"", len)};
    BIND(update_columns, row, values);
    return fedserver_sql_write(db, FEDSERVER_SQL_UPDATE_ADD, values, COUNT(values), NULL, err);
}

typedef struct stored_update {
    int64_t id;
    fedserver_update_row row;
    uint64_t guard;
    size_t len;
    const uint8_t *body;
} stored_update;

static fed_status fail_damaged(fedserver_pg *db, const stored_update *u, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    char name[17] = "?";
    size_t len = 0;
    FED_TRY(FIRST(UPDATE_SENDER, &row, &found, INT(u->row.device)));
    if (found) {
        const uint8_t *fingerprint = fedserver_sql_row_bytes(&row, 0, &len);
        fed_hex(fingerprint, len < 8 ? len : 8, name);
        fedserver_sql_row_end(&row);
    }
    return fed_fail(
        err, FED_EFORMAT,
        "%s: the update of device %s in round %u of task %llu is damaged; restore the database "
        "from a backup",
        db->place, name, u->row.round, (unsigned long long)u->row.task);
}

typedef struct walk {
    fedserver_pg *db;
    uint64_t task;
    uint32_t round;
    int64_t last;
    fed_status (*each)(void *user, const stored_update *u, fed_error *err);
    void *user;
} walk;

static fed_status walk_long_body(const walk *w, stored_update *u, fed_error *err) {
    fedserver_pg *db = w->db;
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(UPDATE_BODY, &row, &found, INT(u->id)));
    if (!found) {
        return fail_damaged(db, u, err);
    }
    u->body = fedserver_sql_row_bytes(&row, 0, &u->len);
    const fed_status status = w->each(w->user, u, err);
    fedserver_sql_row_end(&row);
    return status;
}

static fed_status walk_row(walk *w, const fedserver_sql_row *row, fed_error *err) {
    stored_update u = {.id = fedserver_sql_row_int(row, 0)};
    const int end = READ_INTO(update_columns, row, 1, &u.row);
    u.guard = (uint64_t)fedserver_sql_row_int(row, end);
    /* D2 in docs/durability.md: each update is visited once, in the order of arrival. */
    assert(u.id > w->last);
    /* S4 in docs/durability.md: no other task's update is added to the sum. */
    assert(w->task == 0 || u.row.task == w->task);
    assert(w->round == 0 || u.row.round == w->round);
    w->last = u.id;
    if (fedserver_sql_row_int(row, end + 1) > SMALL) {
        return walk_long_body(w, &u, err);
    }
    u.body = fedserver_sql_row_bytes(row, end + 2, &u.len);
    return w->each(w->user, &u, err);
}

static fed_status walk_all(walk *w, fed_error *err) {
    fedserver_pg *db = w->db;
    for (int count = PAGE; count == PAGE;) {
        fedserver_sql_row row;
        bool more;
        count = 0;
        FED_TRY(FIRST(UPDATE_PAGE, &row, &more, INT(w->last), INT(w->task), INT(SMALL), INT(PAGE),
                      INT(w->round)));
        while (more) {
            const fed_status status = walk_row(w, &row, err);
            count++;
            FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
        }
    }
    return FED_OK;
}

typedef struct visiting {
    fedserver_pg *db;
    fedserver_update_visit visit;
    void *user;
} visiting;

static fed_status visit_update(void *user, const stored_update *u, fed_error *err) {
    const visiting *v = user;
    if (fed_digest_bytes(u->body, u->len) != u->guard) {
        return fail_damaged(v->db, u, err);
    }
    return v->visit(v->user, &u->row, u->body, u->len, err);
}

fed_status fedserver_pg_update_each(void *db, uint64_t task, uint32_t round,
                                    fedserver_update_visit visit, void *user, fed_error *err) {
    visiting v = {.db = db, .visit = visit, .user = user};
    walk w = {.db = db, .task = task, .round = round, .each = visit_update, .user = &v};
    return walk_all(&w, err);
}

typedef struct checking {
    fedserver_pg *db;
    fedserver_checker *checker;
    size_t *bodies;
} checking;

static fed_status check_update(void *user, const stored_update *u, fed_error *err) {
    const checking *c = user;
    fed_error why = {0};
    fed_status status = FED_EFORMAT;
    ++*c->bodies;
    if (fed_digest_bytes(u->body, u->len) != u->guard) {
        status = fail_damaged(c->db, u, &why);
        fedserver_check_note(c->checker, FEDSERVER_FOUND, "S9: %s", why.text);
    }
    return status == FED_EFORMAT ? FED_OK : fed_fail(err, status, "%s", why.text);
}

fed_status fedserver_pg_updates_check(void *db, fedserver_checker *checker, size_t *bodies,
                                      fed_error *err) {
    checking c = {.db = db, .checker = checker, .bodies = bodies};
    walk w = {.db = db, .each = check_update, .user = &c};
    return walk_all(&w, err);
}

fed_status fedserver_pg_update_remove(void *db, uint64_t task, uint64_t lease, fed_error *err) {
    /* S3 in docs/durability.md: one update is deleted, which is a lease's. */
    assert(task != 0 && lease != 0);
    return WRITE(UPDATE_REMOVE, INT(task), INT(lease));
}

fed_status fedserver_pg_update_clear(void *db, uint64_t task, uint32_t round, fed_error *err) {
    /* S5 in docs/durability.md: only one task's updates are deleted. No task has the number 0. */
    assert(task != 0);
    return WRITE(UPDATE_CLEAR, INT(task), INT(round));
}
