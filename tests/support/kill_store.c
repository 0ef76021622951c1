/* Runs PostgreSQL and its standby for the kill matrix. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "kill_store.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "tests/support/faults/fault_disk.h"

enum { PATIENCE_MS = 600000, POLL_MS = 20, PATH_SIZE = 400 };

fed_postgres *kill_store_primary(kill_store *store) {
    return &store->server[store->primary];
}

fed_postgres *kill_store_standby(kill_store *store) {
    return &store->server[1 - store->primary];
}

cut_line *kill_store_line(kill_store *store) {
    return &store->lines[store->primary]->line[0];
}

static void folder_of(const kill_store *store, unsigned k, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/%u", store->directory, k);
}

static void lay_line(kill_store *store, unsigned k) {
    char folder[PATH_SIZE], near[PATH_SIZE + 20], far[PATH_SIZE];
    folder_of(store, k, folder, sizeof folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(near, sizeof near, "%s/.s.PGSQL.5432", folder);
    snprintf(far, sizeof far, "%s/.s.PGSQL.5432", store->server[k].directory);
    store->lines[k] = fault_shared_new(sizeof *store->lines[k]);
    assert_non_null(store->lines[k]);
    (void)cut_lines_add(store->lines[k], near, far);
    store->forwarder[k] = cut_lines_start(store->lines[k]);
}

void kill_store_await_standby(kill_store *store) {
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    char count[20] = "";
    while (strcmp(count, "1") != 0) {
        assert_true(fed_clock_monotonic_ms() < end_ms);
        fed_postgres_sql(kill_store_primary(store)->where,
                         "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
                         count, sizeof count);
        fed_sleep_ms(POLL_MS);
    }
}

void kill_store_repair(kill_store *store) {
    char folder[PATH_SIZE];
    folder_of(store, store->primary, folder, sizeof folder);
    fed_postgres_standby_by(kill_store_primary(store), folder, kill_store_standby(store));
}

void kill_store_open(kill_store *store) {
    *store = (kill_store){.primary = 0};
    fed_test_tmpdir(store->directory, sizeof store->directory);
    assert_int_equal(chmod(store->directory, 0755), 0); /* the servers may run as another user */
    fed_postgres_open(&store->server[0]);
    lay_line(store, 0);
    kill_store_repair(store);
    lay_line(store, 1);
}

void kill_store_close(kill_store *store) {
    for (unsigned k = 0; k < KILL_SERVERS; k++) {
        fed_postgres_kill(&store->server[k]);
        fed_postgres_close(&store->server[k]);
        (void)kill(store->forwarder[k], SIGKILL);
        (void)waitpid(store->forwarder[k], NULL, 0);
        fault_shared_free(store->lines[k], sizeof *store->lines[k]);
    }
    fed_test_rmdir(store->directory);
}

void kill_store_promote(kill_store *store) {
    fed_postgres_promote(kill_store_standby(store));
    store->primary = 1 - store->primary;
}
