/* The matrix of a round's updates: the order of its rows, the files it leaves, and the memory
 * it needs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>

#include "fedserver/strategies/robust.h"

enum { COLUMNS = 3 };

static void add(fedserver_rows *rows, int64_t device, uint64_t lease, float x) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_rows_add(rows, device, lease, (float[]){x, -x, 10 * x}, &err));
}

static void keep(void *user, float *block, size_t first, size_t width) {
    assert_int_equal(first, 0);
    assert_int_equal(width, COLUMNS);
    memcpy(user, block, sizeof(float[4][COLUMNS]));
}

FED_TEST(rows_are_in_the_order_of_device_and_lease) {
    fed_error err = {0};
    char directory[256];
    fedserver_rows rows;
    float found[4][COLUMNS];
    fed_test_tmpdir(directory, sizeof directory);
    assert_fed_ok_err(fedserver_rows_open(&rows, directory, COLUMNS, &err));
    add(&rows, 9, 1, 4);
    add(&rows, 5, UINT64_MAX, 3);
    add(&rows, 5, 2, 2);
    add(&rows, -1, 7, 1);
    fedserver_rows_sort(&rows);
    assert_fed_ok_err(fedserver_rows_each(&rows, keep, found, &err));
    for (int k = 0; k < 4; k++) {
        float x = (float)k + 1;
        assert_true(found[k][0] == x && found[k][1] == -x && found[k][2] == 10 * x);
    }
    fedserver_rows_close(&rows);
    fed_test_rmdir(directory);
}

FED_TEST(nothing_is_left_in_the_directory_even_while_it_is_open) {
    fed_error err = {0};
    char directory[256];
    fedserver_rows rows;
    size_t entries = 0;
    fed_test_tmpdir(directory, sizeof directory);
    assert_fed_ok_err(fedserver_rows_open(&rows, directory, COLUMNS, &err));
    add(&rows, 1, 1, 1);
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        entries++;
    }
    closedir(dir);
    assert_int_equal(entries, 2);
    fedserver_rows_close(&rows);
    fed_test_rmdir(directory);
}

typedef struct closer {
    const char *directory;
    float value;
    int mixed; /* how often the matrix had another row than the one that was added */
} closer;

static void look(void *user, float *block, size_t first, size_t width) {
    closer *c = user;
    c->mixed += first != 0 || width != COLUMNS || block[0] != c->value;
}

static void *close_rounds(void *user) {
    closer *c = user;
    fed_error err = {0};
    for (int k = 0; k < 3000; k++) {
        fedserver_rows rows;
        const float x[COLUMNS] = {c->value};
        if (fedserver_rows_open(&rows, c->directory, COLUMNS, &err) != FED_OK) {
            c->mixed++;
            continue;
        }
        c->mixed += fedserver_rows_add(&rows, 1, 1, x, &err) != FED_OK ||
                    fedserver_rows_each(&rows, look, c, &err) != FED_OK;
        fedserver_rows_close(&rows);
    }
    return NULL;
}

FED_TEST(rounds_that_close_at_the_same_time_have_a_matrix_each) {
    char directory[256];
    pthread_t thread[2];
    fed_test_tmpdir(directory, sizeof directory);
    closer closers[2] = {{directory, 1, 0}, {directory, 2, 0}};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(pthread_create(&thread[k], NULL, close_rounds, &closers[k]), 0);
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(pthread_join(thread[k], NULL), 0);
    }
    assert_int_equal(closers[0].mixed + closers[1].mixed, 0);
    fed_test_rmdir(directory);
}

FED_TEST(a_directory_that_is_not_there_is_named) {
    fed_error err = {0};
    fedserver_rows rows;
    assert_fed_status(fedserver_rows_open(&rows, "nowhere", COLUMNS, &err), FED_EIO);
    assert_fed_says(err, "nowhere/updates.rows");
}

static size_t peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss;
}

/* Check the peak of memory. times: how often the matrix has been read. Each reading may take a
 * new block, because a sanitizer does not reuse freed memory. */
static void check_peak(size_t before, size_t times) {
    size_t taken = peak_kib() - before, most = ((times * FEDSERVER_ROWS_BYTES) >> 10) + 8192;
    if (taken > most) {
        fail_msg("the matrix takes %zu KiB of memory, and at most %zu are allowed", taken, most);
    }
}

/* 144 MiB of values: row k has the value k / 64 everywhere, except the last row. */
FED_TEST(memory_is_bounded_whatever_the_numbers_of_updates_and_parameters) {
    enum { MANY_COLUMNS = 1 << 20, ROWS = 36 };
    fed_error err = {0};
    char directory[256];
    fedserver_rows rows;
    float *x = malloc(MANY_COLUMNS * sizeof *x);
    assert_non_null(x);
    fed_test_tmpdir(directory, sizeof directory);
    assert_fed_ok_err(fedserver_rows_open(&rows, directory, MANY_COLUMNS, &err));
    for (int k = 0; k < ROWS; k++) {
        for (int i = 0; i < MANY_COLUMNS; i++) {
            x[i] = k == ROWS - 1 ? 16.0f : (float)k / 64;
        }
        assert_fed_ok_err(fedserver_rows_add(&rows, ROWS - k, 1, x, &err));
    }
    fedserver_rows_sort(&rows);
    size_t before = peak_kib();
    assert_fed_ok_err(fedserver_trimmed_mean(&rows, 1, x, &err));
    check_peak(before, 1);
    for (int i = 0; i < MANY_COLUMNS; i++) {
        assert_true(x[i] == 17.5f / 64);
    }
    assert_fed_ok_err(fedserver_krum_mean(&rows, 1, 1, x, &err));
    assert_true(x[0] == 17.0f / 64 || x[0] == 18.0f / 64);
    check_peak(before, 3);
    fedserver_rows_close(&rows);
    fed_test_rmdir(directory);
    free(x);
}
