/* `fedserver check` finds a flipped bit in everything that the next model is made from, and
 * keys that do not fit. It writes nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <gnutls/x509.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"

enum { PARAMETERS = 36, DEVICES = 3 };

/* The task has a residual of the deltas and a strategy with state, and the bodies of its
 * updates are in database rows. */
static const char task[] = "{\"model\": \"input 8 | dense 4\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"3lc:s=1.5\", \"strategy\": \"fedadam\","
                           " \"rounds\": 9, \"cohort\": 3}";

typedef struct world {
    coordinator c;
    test_device d[DEVICES];
} world;

static void upload(world *w, int k) {
    float x[PARAMETERS];
    const fed_assignment work = device_ask_work(&w->c, &w->d[k]);
    for (int i = 0; i < PARAMETERS; i++) {
        x[i] = (float)((int)work.round + k * i % 7) / 16;
    }
    assert_int_equal(device_upload(&w->c, &w->d[k], &work, x, 3, NULL), 200);
    coordinator_commit(&w->c);
}

static int setup(void **state) {
    static world w;
    coordinator_setup(&w.c);
    for (int k = 0; k < DEVICES; k++) {
        w.d[k] = coordinator_enrol(&w.c);
    }
    coordinator_task(&w.c, task);
    for (int k = 0; k < 2 * DEVICES + 2; k++) {
        upload(&w, k % DEVICES);
    }
    fedserver_close(w.c.server);
    w.c.server = NULL;
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    coordinator_teardown(&w->c);
    return 0;
}

typedef struct report {
    size_t findings;
    char text[4000];
} report;

static void listen(void *user, fedserver_check_kind kind, const char *text) {
    report *r = user;
    if (kind == FEDSERVER_FOUND) {
        const size_t len = strlen(r->text);
        r->findings++;
        snprintf(r->text + len, sizeof r->text - len, "%s\n", text);
    }
}

static report check(const world *w) {
    fed_error err = {0};
    report r = {0};
    size_t findings = 0;
    fedserver *server;
    assert_fed_ok_err(fedserver_open(w->c.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_check(server, listen, &r, &findings, &err));
    fedserver_close(server);
    assert_int_equal(findings, r.findings);
    return r;
}

typedef struct kept_file {
    char path[400];
    uint8_t *data;
    size_t len;
} kept_file;

static kept_file keep(const world *w, const char *name) {
    kept_file f;
    fed_error err = {0};
    snprintf(f.path, sizeof f.path, "%.240s/%s", w->c.directory, name);
    assert_fed_ok_err(fed_file_read(f.path, 1 << 28, &f.data, &f.len, &err));
    return f;
}

static void put_back(const kept_file *f) {
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(f->path, f->data, f->len, 0600, &err));
}

typedef struct blob_column {
    const char *table, *column;
} blob_column;

static const blob_column blobs[] = {
    {"models", "weights"}, {"models", "residual"},   {"models", "state"},
    {"deltas", "part"},    {"keyframes", "weights"}, {"updates", "body"},
};

static void flip_bit(const world *w, const blob_column *b, double where) {
    char path[400], sql[200];
    sqlite3 *db;
    sqlite3_blob *blob = NULL;
    sqlite3_stmt *row = NULL;
    uint8_t byte = 0;
    snprintf(path, sizeof path, "%.240s/server.db", w->c.directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s WHERE length(%s) > 0", b->table,
             b->column);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    const sqlite3_int64 id = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    assert_int_equal(sqlite3_blob_open(db, "main", b->table, b->column, id, 1, &blob), SQLITE_OK);
    const int at = (int)(where * (sqlite3_blob_bytes(blob) - 1));
    assert_int_equal(sqlite3_blob_read(blob, &byte, 1, at), SQLITE_OK);
    byte ^= 0x10;
    assert_int_equal(sqlite3_blob_write(blob, &byte, 1, at), SQLITE_OK);
    sqlite3_blob_close(blob);
    sqlite3_close(db);
}

static void a_bit_of_whatever_the_next_model_is_made_from_is_found(void **state) {
    static const double places[] = {0, 0.3, 0.7, 1};
    world *w = *state;
    coordinator_only_on_sqlite();
    assert_string_equal(check(w).text, "");
    kept_file sound = keep(w, "server.db");
    for (size_t k = 0; k < sizeof blobs / sizeof blobs[0]; k++) {
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            flip_bit(w, &blobs[k], places[i]);
            if (check(w).findings == 0) {
                fail_msg("the check did not find a flipped bit in %s.%s at %g of its length",
                         blobs[k].table, blobs[k].column, places[i]);
            }
            put_back(&sound);
        }
    }
    free(sound.data);
    assert_string_equal(check(w).text, "");
}

static void export_pem(const world *w, const char *name, const void *pem, size_t size) {
    char path[400];
    fed_test_put(w->c.directory, name, pem, size);
    snprintf(path, sizeof path, "%s/%s", w->c.directory, name);
    assert_int_equal(chmod(path, 0600), 0);
}

/* Give the front a certificate as a public CA would: with an RSA key, and a chain longer than
 * the coordinator's own. */
static void give_the_front_a_chain(const world *w) {
    static uint8_t chain[4 * FED_PEM_SIZE], text[FED_PEM_SIZE];
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    size_t size = sizeof text, len = 0;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, 2048, 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
    assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(cert, "1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(cert, 0), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(cert, INT32_MAX), 0);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export(cert, GNUTLS_X509_FMT_PEM, text, &size), 0);
    for (; len < FED_PEM_SIZE; len += size) {
        memcpy(chain + len, text, size);
    }
    export_pem(w, "front.pem", chain, len);
    size = sizeof text;
    assert_int_equal(gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, text, &size), 0);
    export_pem(w, "front.key", text, size);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

static void keys_that_are_damaged_missing_or_anothers_are_found(void **state) {
    static const char *const names[] = {"ca.pem",     "ca.key",    "server.pem",
                                        "server.key", "front.pem", "front.key"};
    world *w = *state;
    fed_error err = {0};
    fed_pem other;
    give_the_front_a_chain(w);
    assert_string_equal(check(w).text, "");
    assert_fed_ok_err(fed_key_new(&other, &err));
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        kept_file sound = keep(w, names[k]);
        fed_test_put(w->c.directory, names[k], "garbage\n", 8);
        assert_non_null(strstr(check(w).text, names[k]));
        unlink(sound.path);
        if (strcmp(names[k], "front.pem") == 0) { /* the front uses the server's certificate */
            assert_string_equal(check(w).text, "");
        } else {
            assert_non_null(strstr(check(w).text, names[k]));
        }
        if (strstr(names[k], ".key") != NULL) {
            fed_test_put(w->c.directory, names[k], other.text, strlen(other.text));
            assert_non_null(strstr(check(w).text, "is not the key of"));
        }
        put_back(&sound);
        free(sound.data);
    }
    assert_string_equal(check(w).text, "");
}

static void a_read_only_medium_is_checked_too(void **state) {
    const world *w = *state;
    const char *at = w->c.directory;
    char command[2000];
    coordinator_only_on_sqlite();
    if (system("unshare -rm true 2>/dev/null") != 0) {
        skip();
    }
    snprintf(command, sizeof command,
             "unshare -rm sh -c 'mount --bind \"%s\" \"%s\" && mount -o remount,ro,bind \"%s\" || "
             "exit 0; ! touch \"%s/x\" 2>/dev/null && '" FED_BIN_DIR
             "'/fedserver check --dir \"%s\" >/dev/null'",
             at, at, at, at, at);
    assert_int_equal(system(command), 0);
    assert_string_equal(check(w).text, "");
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_bit_of_whatever_the_next_model_is_made_from_is_found),
        WITH(keys_that_are_damaged_missing_or_anothers_are_found),
        WITH(a_read_only_medium_is_checked_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
