/* Measure how many updates per second a store makes durable, compared with database rows and with
 * the disk itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "fed_postgres.h"
#include "fedserver/stores/stores.h"

/*
 * bench_store [DIRECTORY]
 * bench_store --postgres [DIRECTORY]
 * bench_store --lead [DIRECTORY]
 *
 * DIRECTORY (default: the working directory) should be on the disk to measure. Batches of updates
 * are committed to the store, to database rows that contain the updates, and to a plain file with
 * one fdatasync a batch. The three ways alternate.
 *
 * --postgres: the default store is compared with one on a PostgreSQL server, which is started in
 * DIRECTORY for this run. --lead: the store of a coordinator alone is compared with that of the
 * leader of several, both on such a server.
 */

enum { DEVICES = 64, ROUNDS = 5 };

typedef struct bench {
    const fedserver_store *store;
    void *db;
    fedserver_device devices[DEVICES];
    uint64_t task, leases;
    sqlite3 *rows;
    sqlite3_stmt *insert, *touch;
    int raw;
    uint8_t *body;
    size_t len;
} bench;

static void sql(sqlite3 *db, const char *text) {
    bench_require(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK ? FED_OK : FED_EIO,
                  sqlite3_errmsg(db));
}

static void expect(const bench *b, int code, int wanted) {
    bench_require(code == wanted ? FED_OK : FED_EIO, sqlite3_errmsg(b->rows));
}

static void by_store(bench *b, int batch) {
    fed_error err = {0};
    for (int k = 0; k < batch; k++) {
        fedserver_device *device = &b->devices[k % DEVICES];
        device->counted_lease = ++b->leases;
        const fedserver_update_row row = {
            .task = b->task, .round = 1, .device = device->id, .lease = device->counted_lease};
        bench_require(b->store->update_add(b->db, &row, b->body, b->len, &err), err.text);
        bench_require(b->store->device_put(b->db, device, &err), err.text);
    }
    bench_require(b->store->commit(b->db, &err), err.text);
}

static void by_rows(bench *b, int batch) {
    sql(b->rows, "BEGIN IMMEDIATE");
    for (int k = 0; k < batch; k++) {
        sqlite3_bind_int(b->insert, 1, k % DEVICES + 1);
        sqlite3_bind_blob64(b->insert, 2, b->body, b->len, SQLITE_STATIC);
        expect(b, sqlite3_step(b->insert), SQLITE_DONE);
        sqlite3_reset(b->insert);
        sqlite3_bind_int64(b->touch, 1, (sqlite3_int64)++b->leases);
        sqlite3_bind_int(b->touch, 2, k % DEVICES + 1);
        expect(b, sqlite3_step(b->touch), SQLITE_DONE);
        sqlite3_reset(b->touch);
    }
    sql(b->rows, "COMMIT");
}

static void by_appends(bench *b, int batch) {
    for (int k = 0; k < batch; k++) {
        for (size_t done = 0; done < b->len;) {
            ssize_t put = write(b->raw, b->body + done, b->len - done);
            bench_require(put > 0 ? FED_OK : FED_EIO, "write");
            done += (size_t)put;
        }
    }
    bench_require(fdatasync(b->raw) == 0 ? FED_OK : FED_EIO, "fdatasync");
}

static void end_round(bench *b) {
    fed_error err = {0};
    bench_require(b->store->update_clear(b->db, b->task, UINT32_MAX, &err), err.text);
    bench_require(b->store->commit(b->db, &err), err.text);
}

static void measure(bench *b, int batch, int count) {
    bench_times store = {.count = 0}, rows = {.count = 0}, raw = {.count = 0};
    bench_times end = {.count = 0}, rows_end = {.count = 0};
    for (int r = 0; r < ROUNDS; r++) {
        BENCH_TIME(&raw, for (int k = 0; k < count; k += batch) by_appends(b, batch));
        BENCH_TIME(&store, for (int k = 0; k < count; k += batch) by_store(b, batch));
        BENCH_TIME(&rows, for (int k = 0; k < count; k += batch) by_rows(b, batch));
        BENCH_TIME(&end, end_round(b));
        BENCH_TIME(&rows_end, sql(b->rows, "DELETE FROM updates"));
        bench_require(ftruncate(b->raw, 0) == 0 && lseek(b->raw, 0, SEEK_SET) == 0 ? FED_OK
                                                                                   : FED_EIO,
                      "ftruncate");
    }
    double took = bench_median_s(&store), disk = bench_median_s(&raw), row = bench_median_s(&rows);
    printf("| %7zu | %5d | %8.0f | %8.0f | %8.0f | %5.2f | %5.2f | %6.1f | %6.1f |\n", b->len,
           batch, count / disk, count / took, count / row, disk / took, row / took,
           1e3 * bench_median_s(&end), 1e3 * bench_median_s(&rows_end));
    fflush(stdout);
}

static void open_store(bench *b, const fedserver_store *store, const char *directory,
                       const char *where) {
    fed_error err = {0};
    fedserver_task task = {.name = "bench"};
    b->store = store;
    bench_require(b->store->create(directory, where, &err), err.text);
    bench_require(b->store->open(directory, where, &b->db, &err), err.text);
    bench_require(b->store->task_add(b->db, &task, &err), err.text);
    b->task = task.wire.id;
    for (int k = 0; k < DEVICES; k++) {
        b->devices[k] = (fedserver_device){.fingerprint = {(uint8_t)k, 1}};
        bench_require(b->store->device_add(b->db, &b->devices[k], &err), err.text);
    }
    bench_require(b->store->commit(b->db, &err), err.text);
}

/* Make tables in which an update's body is in its row. */
static void open_rows(bench *b, const char *path) {
    expect(b, sqlite3_open(path, &b->rows), SQLITE_OK);
    sql(b->rows,
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -8192;"
        "CREATE TABLE devices (id INTEGER PRIMARY KEY, counted_lease INTEGER) STRICT;"
        "CREATE TABLE updates (id INTEGER PRIMARY KEY, device INTEGER, body BLOB) STRICT;");
    for (int k = 0; k < DEVICES; k++) {
        sql(b->rows, "INSERT INTO devices (counted_lease) VALUES (0)");
    }
    expect(b,
           sqlite3_prepare_v2(b->rows, "INSERT INTO updates (device, body) VALUES (?, ?)", -1,
                              &b->insert, NULL),
           SQLITE_OK);
    expect(b,
           sqlite3_prepare_v2(b->rows, "UPDATE devices SET counted_lease = ? WHERE id = ?", -1,
                              &b->touch, NULL),
           SQLITE_OK);
}

static void measure_both(bench b[2], int batch, int count) {
    bench_times times[2] = {{.count = 0}, {.count = 0}};
    bench_times ends[2] = {{.count = 0}, {.count = 0}};
    for (int r = 0; r < ROUNDS; r++) {
        for (int s = 0; s < 2; s++) {
            BENCH_TIME(&times[s], for (int k = 0; k < count; k += batch) by_store(&b[s], batch));
            BENCH_TIME(&ends[s], end_round(&b[s]));
        }
    }
    const double first = bench_median_s(&times[0]);
    const double second = bench_median_s(&times[1]);
    printf("| %7zu | %5d | %8.0f | %8.0f | %5.2f | %6.1f | %6.1f |\n", b[0].len, batch,
           count / first, count / second, first / second, 1e3 * bench_median_s(&ends[0]),
           1e3 * bench_median_s(&ends[1]));
    fflush(stdout);
}

/* Write a few hundred MB first, because a new PostgreSQL server must first create the files of its
 * log. */
static void warm_up(bench *b, const char *where) {
    enum { BATCHES = 12, LARGE = 400000 };
    fed_postgres_sql(where, "ALTER SYSTEM SET min_wal_size = '1GB'", NULL, 0);
    fed_postgres_sql(where, "SELECT pg_reload_conf()", NULL, 0);
    b->len = LARGE;
    b->body = bench_alloc(b->len);
    for (int k = 0; k < BATCHES; k++) {
        by_store(b, DEVICES);
    }
    end_round(b);
    free(b->body);
    fed_postgres_sql(where, "CHECKPOINT", NULL, 0);
    fed_postgres_sql(where, "CHECKPOINT", NULL, 0);
}

static void open_lead(bench b[2], const fedserver_store *store, const char *directory,
                      const fed_postgres *server) {
    fed_error err = {0};
    fedserver_lead lead = {.mine = false};
    char where[400];
    fed_postgres_sql(server->where, "CREATE DATABASE alone", NULL, 0);
    snprintf(where, sizeof where, "host=%s user=fed dbname=alone", server->directory);
    open_store(&b[0], store, directory, where);
    open_store(&b[1], store, directory, server->where);
    bench_require(store->lock(b[0].db, &err), err.text);
    bench_require(store->lead(b[1].db, "127.0.0.1:8500", &lead, &err), err.text);
    bench_require(lead.mine ? FED_OK : FED_ESTATE, "it does not lead");
}

static int compare_stores(const char *directory, bool of_lead) {
    static const size_t lens[] = {2048, 30000, 400000};
    static const int counts[] = {1920, 640, 192};
    static bench b[2];
    fed_postgres server;
    fedserver_store_choice choice;
    fed_error err = {0};
    char file[400];
    if (!fed_postgres_is_there()) {
        return 77;
    }
    bench_require(chmod(directory, 0711) == 0 ? FED_OK : FED_EIO, "chmod");
    bench_require(setenv("TMPDIR", directory, 1) == 0 ? FED_OK : FED_EIO, "setenv");
    fed_postgres_open(&server);
    bench_require(fedserver_store_parse("postgres:there", &choice, &err), err.text);
    if (of_lead) {
        open_lead(b, choice.store, directory, &server);
    } else {
        open_store(&b[0], fedserver_store_at(0), directory, "");
        open_store(&b[1], choice.store, directory, server.where);
    }
    warm_up(&b[1], server.where);
    printf("updates/s, median of %d rounds; ratio to the first; closing a round\n\n"
           "|   bytes | batch | %8s | %8s | ratio | end ms | end ms |\n"
           "|---|---|---|---|---|---|---|\n",
           ROUNDS, of_lead ? "alone" : "SQLite", of_lead ? "leading" : "Postgres");
    for (int i = 0; i < 3; i++) {
        b[0].body = b[1].body = bench_alloc(lens[i]);
        b[0].len = b[1].len = lens[i];
        memset(b[0].body, 'u', lens[i]);
        for (int batch = 1; batch <= 64; batch = batch == 1 ? 16 : batch * 4) {
            measure_both(b, batch, batch == 1 ? counts[i] / 8 : counts[i]);
        }
        free(b[0].body);
    }
    b[0].store->close(b[0].db);
    b[1].store->close(b[1].db);
    fed_postgres_close(&server);
    snprintf(file, sizeof file, "%s/server.db", directory);
    unlink(file);
    return rmdir(directory);
}

int main(int argc, char **argv) {
    const bool of_lead = argc > 1 && strcmp(argv[1], "--lead") == 0;
    const bool both = of_lead || (argc > 1 && strcmp(argv[1], "--postgres") == 0);
    char directory[300];
    char path[3][400];
    static const char *const names[] = {"server.db", "rows.db", "raw"};
    snprintf(directory, sizeof directory, "%s/bench_store-XXXXXX",
             argc > 1 + both ? argv[1 + both] : ".");
    bench_require(mkdtemp(directory) != NULL ? FED_OK : FED_EIO, directory);
    if (both) {
        return compare_stores(directory, of_lead);
    }
    for (int k = 0; k < 3; k++) {
        snprintf(path[k], sizeof path[k], "%s/%s", directory, names[k]);
    }
    static bench b;
    open_store(&b, fedserver_store_at(0), directory, "");
    open_rows(&b, path[1]);
    b.raw = open(path[2], O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    bench_require(b.raw >= 0 ? FED_OK : FED_EIO, path[2]);

    printf(
        "updates/s, median of %d rounds; ratios to the bare appends and to rows; closing a "
        "round\n\n"
        "|   bytes | batch |      raw |    store |     rows | /raw  | /rows | end ms | rows   |\n"
        "|---|---|---|---|---|---|---|---|---|\n",
        ROUNDS);
    static const size_t lens[] = {2048, 1724320}; /* 1724320: lenet5-caffe as float32 */
    for (int i = 0; i < 2; i++) {
        b.len = lens[i];
        b.body = bench_alloc(b.len);
        memset(b.body, 'u', b.len);
        for (int batch = 1; batch <= 64; batch = batch == 1 ? 16 : batch * 4) {
            measure(&b, batch, i == 0 ? 192 : (batch == 64 ? 64 : 32));
        }
        free(b.body);
    }
    sqlite3_finalize(b.insert);
    sqlite3_finalize(b.touch);
    sqlite3_close(b.rows);
    b.store->close(b.db);
    close(b.raw);
    for (int k = 0; k < 3; k++) {
        unlink(path[k]);
    }
    return rmdir(directory);
}
