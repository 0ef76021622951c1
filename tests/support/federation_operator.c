/* The operator's commands in the middle of a task: backup, restore, the first start of a newer
 * release, and changes of the queue. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/hash.h"
#include "fed_first_release.h"
#include "fed_test.h"
#include "federation.h"

typedef struct places {
    char home[500], backup[500], lost[500];
} places;

static places places_of(const federation *f) {
    places p;
    snprintf(p.home, sizeof p.home, "%s/coordinator", f->directory);
    snprintf(p.backup, sizeof p.backup, "%s/backup", f->directory);
    snprintf(p.lost, sizeof p.lost, "%s/lost", f->directory);
    return p;
}

static fed_status back_up(const places *p, fed_error *err) {
    fedserver *server = NULL;
    FED_TRY(fedserver_open(p->home, NULL, &server, err));
    fed_status status = fedserver_backup(server, p->backup, err);
    fedserver_close(server);
    return status;
}

/** Map FED_ESTATE to success: the killed command had done the work already. */
static fed_status again(fed_status status) {
    return status == FED_ESTATE ? FED_OK : status;
}

static fed_status change_queue(const places *p, fed_error *err) {
    const int64_t now_ms = fed_clock_unix_ms();
    fedserver *server = NULL;
    FED_TRY(fedserver_open(p->home, NULL, &server, err));
    fed_status status = again(fedserver_task_move(server, fed_clock_unix_ms(), 2, 1, err));
    if (status == FED_OK) {
        status = again(fedserver_task_change(server, now_ms, 1, FEDSERVER_PAUSE, err));
    }
    if (status == FED_OK) {
        status = again(fedserver_task_change(server, now_ms, 2, FEDSERVER_CANCEL, err));
    }
    if (status == FED_OK) {
        status = again(fedserver_task_change(server, now_ms, 1, FEDSERVER_RESUME, err));
    }
    fedserver_close(server);
    return status;
}

static fed_status obey(federation_job job, const places *p, fed_error *err) {
    switch (job) {
    case FEDERATION_BACKUP:
        return back_up(p, err);
    case FEDERATION_RESTORE:
        return fedserver_restore(p->backup, p->home, err);
    case FEDERATION_QUEUE:
        return change_queue(p, err);
    default:
        return fedserver_upgrade(p->home, err);
    }
}

static int run(const federation *f, federation_job job, fault_plan *plan) {
    const places p = places_of(f);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fed_error err = {0};
        fed_test_die_with_parent();
        if (plan != NULL) {
            fault_disk_watch(f->directory, plan);
        }
        fed_status status = obey(job, &p, &err);
        if (status == FED_OK && plan != NULL &&
            (plan->kind == FAULT_POWER || plan->kind == FAULT_POWER_TORN)) {
            fault_disk_cut();
        }
        if (status != FED_OK && (plan == NULL || getenv("FED_SWEEP_VERBOSE") != NULL)) {
            fprintf(stderr, "the operator's command failed: %s\n", err.text);
        }
        _exit(status == FED_OK ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how;
}

static bool succeeded(int how) {
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static void note_finding(void *user, fedserver_check_kind kind, const char *text) {
    if (kind == FEDSERVER_FOUND) {
        federation_break(user, "%s", text);
    }
}

static bool is_whole(federation *f, const char *directory) {
    fedserver *server = NULL;
    fed_error err = {0};
    size_t findings = 0;
    fed_status status = fedserver_open(directory, NULL, &server, &err);
    if (status == FED_ENOTFOUND) {
        return false;
    }
    if (status == FED_OK) {
        status = fedserver_check(server, note_finding, f, &findings, &err);
    }
    fedserver_close(server);
    if (status != FED_OK) {
        federation_break(f, "S7: the directory has an incomplete coordinator: %s", err.text);
    }
    return true;
}

/** D6 of docs/durability.md: a killed process leaves no files for good. A failed unlink is no fault
 * of the process. */
static void check_leftovers(federation *f, const char *directory) {
    const fault_plan *plan = f->process[FEDERATION_OPERATOR].plan;
    if (plan->kind == FAULT_IO && strncmp(plan->what, "unlink ", 7) == 0) {
        return;
    }
    federation_check_leftovers(f, directory, ".new");
}

/** Check that a copy is complete, or that running the command again makes it. said: the command
 * reported success. */
static void judge_copy(federation *f, const char *directory, bool said) {
    bool whole = is_whole(f, directory);
    if (said && !whole) {
        federation_break(f, "S12: the command reported success, but there is no coordinator");
    }
    if (!whole && !succeeded(run(f, f->setup->job, NULL))) {
        federation_break(f, "D6: the command that was killed fails when it is run again");
    }
    if (!whole && !is_whole(f, directory)) {
        federation_break(f, "S12: the command was run again, but there is no coordinator");
    }
    check_leftovers(f, directory);
}

static void judge_queue(federation *f, bool said) {
    if (!said && !succeeded(run(f, f->setup->job, NULL))) {
        federation_break(f, "D6: the queue commands that were killed fail when they are run again");
    }
}

static sqlite3 *open_database(const char *directory) {
    char path[520];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/server.db", directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void run_script(sqlite3 *db, const char *sql) {
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s", why);
    }
}

/* Digest the tasks' texts, without device_share, which layouts up to 7 do not have. */
static uint64_t digest_tasks(sqlite3 *db) {
    sqlite3_stmt *row = NULL;
    static const char sql[] =
        "SELECT group_concat(id || json_remove(text, '$.device_share') || position)"
        " FROM (SELECT * FROM tasks ORDER BY id)";
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    const uint64_t digest =
        fed_digest_bytes(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    sqlite3_finalize(row);
    return digest;
}

static void make_old(federation *f, const char *directory) {
    sqlite3 *db = open_database(directory);
    f->tasks = digest_tasks(db);
    run_script(db, FED_LAYOUT_8);
    if (f->setup->layout <= 7) {
        run_script(db, FED_LAYOUT_7);
    }
    if (f->setup->layout <= 1) {
        run_script(db, FED_FIRST_RELEASE);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void federation_check_tasks(federation *f) {
    const places p = places_of(f);
    if (f->tasks != 0) {
        sqlite3 *db = open_database(p.home);
        if (digest_tasks(db) != f->tasks) {
            federation_break(f, "D6: the migration has changed the tasks' texts");
        }
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
}

static void prepare(federation *f, const places *p) {
    if (f->setup->job == FEDERATION_RESTORE) {
        assert_true(succeeded(run(f, FEDERATION_BACKUP, NULL)));
        federation_quit(f, FEDERATION_COORDINATOR);
        assert_int_equal(rename(p->home, p->lost), 0);
    } else if (f->setup->job == FEDERATION_MIGRATE) {
        federation_quit(f, FEDERATION_COORDINATOR);
        make_old(f, p->home);
    }
}

static void go_on(federation *f, const places *p) {
    if (f->setup->job == FEDERATION_BACKUP && f->fault->at[0] % 2 == 0) {
        federation_quit(f, FEDERATION_COORDINATOR);
        assert_int_equal(rename(p->home, p->lost), 0);
        assert_int_equal(rename(p->backup, p->home), 0);
    }
}

void federation_operate(federation *f) {
    const places p = places_of(f);
    prepare(f, &p);
    federation_plan_life(f, FEDERATION_OPERATOR);
    fault_plan *plan = f->process[FEDERATION_OPERATOR].plan;
    int how = run(f, f->setup->job, plan);
    const bool fired = plan->fired != 0;
    f->result->fired |= fired;
    f->result->calls[FEDERATION_OPERATOR] = plan->calls;
    f->result->kills += fired && WIFSIGNALED(how) ? 1U : 0U;
    if (fired) {
        snprintf(f->result->what, sizeof f->result->what, "%s", plan->what);
    }
    if (plan->kind == FAULT_POWER || plan->kind == FAULT_POWER_TORN) {
        federation_kill_all(f);
    }
    bool said = succeeded(how) || plan->fired == 0;
    if (WIFEXITED(how) && !succeeded(how) && plan->fired == 0) {
        federation_break(f, "D6: the operator's command failed without a fault of its disk");
    } else if (f->setup->job == FEDERATION_QUEUE) {
        judge_queue(f, succeeded(how));
    } else if (f->setup->job != FEDERATION_MIGRATE) {
        judge_copy(f, f->setup->job == FEDERATION_BACKUP ? p.backup : p.home, said);
    }
    if (f->setup->job == FEDERATION_RESTORE && !is_whole(f, p.backup)) {
        federation_break(f, "S12: the backup that the command reported is missing");
    }
    if (f->result->broken[0] == '\0') {
        go_on(f, &p);
    }
}
