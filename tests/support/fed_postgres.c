/* Starts and stops PostgreSQL servers for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* setgroups */
#include "fed_postgres.h"

#include "fed_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedserver/stores/stores.h"

#ifdef FED_TEST_POSTGRES
#include "fedserver/stores/postgres/pg_database.h"
#endif

enum { PATIENCE_MS = 600000, POLL_MS = 20, PATH_SIZE = 400 };

const char *fed_postgres_programs(void) {
    static char path[300];
    static const char base[] = "/usr/lib/postgresql";
    long newest = 0;
    DIR *folder = opendir(base);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char program[400];
        const long release = strtol(entry->d_name, NULL, 10);
        snprintf(program, sizeof program, "%s/%ld/bin/initdb", base, release);
        newest = release > newest && access(program, X_OK) == 0 ? release : newest;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    path[0] = '\0';
    if (newest > 0) {
        snprintf(path, sizeof path, "%s/%ld/bin", base, newest);
    }
    return path;
}

bool fed_postgres_is_there(void) {
    fedserver_store_choice choice;
    fed_error err = {0};
    if (fedserver_store_parse("postgres:there", &choice, &err) != FED_OK) {
        printf("PostgreSQL: not tried, this build has no such store\n");
        return false;
    }
    if (fed_postgres_programs()[0] == '\0') {
        printf("PostgreSQL: not tried, no server is in /usr/lib/postgresql; deploy/setup.sh "
               "--postgres "
               "installs one\n");
        return false;
    }
    return true;
}

#ifdef FED_TEST_POSTGRES

/* Return the user to run PostgreSQL as, because it refuses root. NULL: the present user. */
static const struct passwd *user_without_rights(void) {
    if (geteuid() != 0) {
        return NULL;
    }
    const struct passwd *user = getpwnam("postgres");
    user = user != NULL ? user : getpwnam("nobody");
    assert_non_null(user);
    return user;
}

static void become_user(void) {
    const struct passwd *user = user_without_rights();
    if (user != NULL &&
        (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) {
        _exit(126);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* end with the test's process */
}

static pid_t start_program(const fed_postgres *server, const char *name, char **arguments) {
    char program[PATH_SIZE];
    char log[PATH_SIZE];
    snprintf(program, sizeof program, "%s/%s", fed_postgres_programs(), name);
    snprintf(log, sizeof log, "%s/log", server->directory);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become_user();
        const int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        (void)dup2(file, 1);
        (void)dup2(file, 2);
        (void)!chdir(server->directory);
        arguments[0] = program;
        execv(program, arguments);
        _exit(127);
    }
    return pid;
}

static bool ended_by(pid_t pid, int64_t end_ms, int *how) {
    while (waitpid(pid, how, WNOHANG) == 0) {
        if (fed_clock_monotonic_ms() > end_ms) {
            return false;
        }
        fed_sleep_ms(POLL_MS);
    }
    return true;
}

static void make_directory(fed_postgres *server, char *data) {
    const char *base = getenv("TMPDIR");
    const struct passwd *user = user_without_rights();
    *server = (fed_postgres){.pid = 0};
    snprintf(server->directory, sizeof server->directory, "%s/fed_pg-XXXXXX",
             base != NULL && strlen(base) < 80 ? base : "/tmp");
    assert_non_null(mkdtemp(server->directory));
    assert_true(user == NULL || chown(server->directory, user->pw_uid, user->pw_gid) == 0);
    snprintf(data, PATH_SIZE, "%s/data", server->directory);
    snprintf(server->where, sizeof server->where, "host=%s user=fed dbname=postgres",
             server->directory);
}

static void run_program(const fed_postgres *server, const char *name, char **arguments) {
    int how = -1;
    const pid_t pid = start_program(server, name, arguments);
    assert_true(ended_by(pid, fed_clock_monotonic_ms() + PATIENCE_MS, &how));
    if (how != 0) {
        char log[PATH_SIZE];
        uint8_t *said = NULL;
        size_t len = 0;
        snprintf(log, sizeof log, "%s/log", server->directory);
        const fed_status status = fed_file_read(log, 1 << 20, &said, &len, NULL);
        fail_msg("%s ended with status %d: %.*s", name, how, status == FED_OK ? (int)len : 0,
                 (const char *)said);
    }
}

void fed_postgres_open(fed_postgres *server) {
    char data[PATH_SIZE];
    make_directory(server, data);
    char *arguments[] = {"initdb",     "-D",
                         data,         "-U",
                         "fed",        "--auth=trust",
                         "--no-sync",  "--encoding=UTF8",
                         "--locale=C", "--data-checksums",
                         NULL};
    run_program(server, "initdb", arguments);
    fed_postgres_start(server);
}

static bool answers(const fed_postgres *server) {
    return PQping(server->where) == PQPING_OK;
}

void fed_postgres_start(fed_postgres *server) {
    char data[PATH_SIZE];
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    int how;
    snprintf(data, sizeof data, "%s/data", server->directory);
    char *arguments[] = {"postgres",
                         "-D",
                         data,
                         "-k",
                         server->directory,
                         "-c",
                         "listen_addresses=",
                         "-c",
                         "shared_buffers=128MB",
                         "-c",
                         "log_min_messages=panic",
                         NULL};
    while (server->pid == 0 || !answers(server)) {
        assert_true(fed_clock_monotonic_ms() < end_ms);
        /* A server can't start before all processes of its predecessor have ended. */
        if (server->pid == 0 || ended_by(server->pid, 0, &how)) {
            server->pid = start_program(server, "postgres", arguments);
        }
        fed_sleep_ms(POLL_MS);
    }
}

/* Stop the postmaster first, so that it starts no more processes, and then send the signal to its
 * children and to itself. */
void fed_postgres_signal(const fed_postgres *server, int number) {
    char path[64];
    long process;
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)server->pid,
             (long)server->pid);
    FILE *list = fopen(path, "r");
    while (list != NULL && fscanf(list, "%ld", &process) == 1) {
        (void)kill((pid_t)process, number);
    }
    if (list != NULL) {
        fclose(list);
    }
    assert_int_equal(kill(server->pid, number), 0);
}

void fed_postgres_kill(fed_postgres *server) {
    int how;
    fed_postgres_signal(server, SIGKILL);
    assert_int_equal(waitpid(server->pid, &how, 0), server->pid);
    server->pid = 0;
}

void fed_postgres_close(fed_postgres *server) {
    int how;
    if (server->pid != 0) {
        (void)kill(server->pid, SIGINT);
        if (!ended_by(server->pid, fed_clock_monotonic_ms() + PATIENCE_MS, &how)) {
            fed_postgres_kill(server);
        }
        server->pid = 0;
    }
    fed_test_rmdir(server->directory);
}

static void ignore_notice(void *user, const PGresult *result) {
    (void)user, (void)result;
}

void fed_postgres_sql(const char *where, const char *sql, char *first, size_t cap) {
    PGconn *conn = PQconnectdb(where);
    PQsetNoticeReceiver(conn, ignore_notice, NULL);
    PGresult *result = PQexec(conn, sql);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    }
    if (first != NULL) {
        snprintf(first, cap, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    }
    PQclear(result);
    PQfinish(conn);
}

void fed_postgres_look_again(void *db) {
    ((fedserver_pg *)db)->looked_ms = -FEDSERVER_CHANGED_MS;
}

static void wait_for(const char *where, const char *question) {
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    char answer[8] = "";
    while (strcmp(answer, "t") != 0) {
        assert_true(fed_clock_monotonic_ms() < end_ms);
        fed_postgres_sql(where, question, answer, sizeof answer);
        fed_sleep_ms(POLL_MS);
    }
}

/* Set synchronous_standby_names before the copy is made, so that the standby inherits it. */
void fed_postgres_standby_by(fed_postgres *primary, const char *folder, fed_postgres *standby) {
    char data[PATH_SIZE], host[PATH_SIZE];
    snprintf(host, sizeof host, "%s", folder);
    if (standby->directory[0] == '\0') {
        make_directory(standby, data);
    } else {
        snprintf(data, sizeof data, "%s/data", standby->directory);
        fed_test_rmdir(data);
    }
    fed_postgres_sql(primary->where, "ALTER SYSTEM SET synchronous_standby_names = '*'", NULL, 0);
    char *arguments[] = {
        "pg_basebackup",     "-D",        data, "-h", host, "-U", "fed", "-R", "-X", "stream",
        "--checkpoint=fast", "--no-sync", NULL};
    run_program(standby, "pg_basebackup", arguments);
    fed_postgres_start(standby);
    fed_postgres_sql(primary->where, "SELECT pg_reload_conf()", NULL, 0);
    wait_for(primary->where, "SELECT count(*) = 1 AND current_setting('synchronous_standby_names')"
                             " = '*' FROM pg_stat_replication WHERE sync_state = 'sync'");
}

void fed_postgres_standby(fed_postgres *primary, fed_postgres *standby) {
    fed_postgres_standby_by(primary, primary->directory, standby);
}

void fed_postgres_promote(fed_postgres *standby) {
    char data[PATH_SIZE];
    snprintf(data, sizeof data, "%s/data", standby->directory);
    char *arguments[] = {"pg_ctl", "promote", "-D", data, "-w", NULL};
    run_program(standby, "pg_ctl", arguments);
    wait_for(standby->where, "SELECT NOT pg_is_in_recovery()");
}

void fed_postgres_where_all(const fed_postgres *servers, size_t count, char *where, size_t cap) {
    size_t at = (size_t)snprintf(where, cap, "user=fed dbname=postgres host=");
    for (size_t k = 0; k < count && at < cap; k++) {
        at +=
            (size_t)snprintf(where + at, cap - at, "%s%s", k > 0 ? "," : "", servers[k].directory);
    }
    assert_true(at < cap);
}

static fed_postgres shared;
static pid_t owner;

static void close_shared(void) {
    if (owner == getpid()) { /* a child process must not stop its parent's server */
        fed_postgres_close(&shared);
    }
}

const char *fed_postgres_shared(void) {
    if (shared.where[0] == '\0' && fed_postgres_is_there()) {
        fed_postgres_open(&shared);
        owner = getpid();
        (void)atexit(close_shared);
    }
    return shared.where;
}

void fed_postgres_clear(const char *where) {
    fed_postgres_sql(where, "DROP SCHEMA IF EXISTS fedserver CASCADE", NULL, 0);
}

/* Return the connection string of the k-th database of the shared server, which is created if
 * needed. */
static const char *database(unsigned k) {
    static char where[FED_POSTGRES_STORES][320];
    assert_true(k < FED_POSTGRES_STORES);
    if (where[k][0] == '\0' && k > 0) {
        char sql[60];
        snprintf(sql, sizeof sql, "CREATE DATABASE fed%u", k);
        fed_postgres_sql(shared.where, sql, NULL, 0);
        snprintf(where[k], sizeof where[k], "host=%s user=fed dbname=fed%u", shared.directory, k);
    }
    return k > 0 ? where[k] : shared.where;
}

const char *fed_postgres_store_at(const char *name, unsigned k) {
    static char text[400];
    if (name == NULL || strcmp(name, "postgres") != 0) {
        return name;
    }
    if (fed_postgres_shared()[0] == '\0') {
        exit(77); /* ctest takes this status as "skipped" */
    }
    snprintf(text, sizeof text, "postgres:%s", database(k));
    fed_postgres_clear(database(k));
    return text;
}

#else

const char *fed_postgres_store_at(const char *name, unsigned k) {
    (void)k;
    return name;
}

void fed_postgres_open(fed_postgres *server) {
    (void)server;
    fail_msg("this build has no store on PostgreSQL");
}

void fed_postgres_close(fed_postgres *server) {
    (void)server;
}

void fed_postgres_start(fed_postgres *server) {
    (void)server;
}

void fed_postgres_signal(const fed_postgres *server, int number) {
    (void)server, (void)number;
}

void fed_postgres_kill(fed_postgres *server) {
    (void)server;
}

void fed_postgres_standby_by(fed_postgres *primary, const char *folder, fed_postgres *standby) {
    (void)primary, (void)folder, (void)standby;
}

void fed_postgres_standby(fed_postgres *primary, fed_postgres *standby) {
    (void)primary, (void)standby;
}

void fed_postgres_promote(fed_postgres *standby) {
    (void)standby;
}

void fed_postgres_where_all(const fed_postgres *servers, size_t count, char *where, size_t cap) {
    (void)servers, (void)count, (void)where, (void)cap;
}

void fed_postgres_sql(const char *where, const char *sql, char *first, size_t cap) {
    (void)where, (void)sql, (void)first, (void)cap;
}

const char *fed_postgres_shared(void) {
    return "";
}

void fed_postgres_clear(const char *where) {
    (void)where;
}

void fed_postgres_look_again(void *db) {
    (void)db;
}

#endif

const char *fed_postgres_store(const char *name) {
    return fed_postgres_store_at(name, 0);
}
