/* The robust strategies for many sizes, compared with sorting and with computing every
 * distance. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedserver/strategies/robust.h"

enum { MOST = 70, COLUMNS = 1100 };

typedef struct fixture {
    char directory[256];
    fedserver_rows rows;
    float x[MOST][COLUMNS];
    float u[COLUMNS];
} fixture;

static fixture f;

static void fill(size_t count) {
    fed_error err = {0};
    fed_rng rng;
    fed_rng_init(&rng, count, 0, 0);
    fed_test_tmpdir(f.directory, sizeof f.directory);
    assert_fed_ok_err(fedserver_rows_open(&f.rows, f.directory, COLUMNS, &err));
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; i < COLUMNS; i++) {
            f.x[k][i] = (float)fed_rng_below(&rng, 200) - 100;
        }
        assert_fed_ok_err(fedserver_rows_add(&f.rows, (int64_t)k, 1, f.x[k], &err));
    }
    fedserver_rows_sort(&f.rows);
}

static void clear(void) {
    fedserver_rows_close(&f.rows);
    fed_test_rmdir(f.directory);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_trimmed(size_t count, size_t cut) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_trimmed_mean(&f.rows, cut, f.u, &err));
    for (size_t i = 0; i < COLUMNS; i++) {
        double value[MOST], sum = 0;
        for (size_t k = 0; k < count; k++) {
            value[k] = (double)f.x[k][i];
        }
        qsort(value, count, sizeof *value, by_value);
        for (size_t k = cut; k < count - cut; k++) {
            sum += value[k];
        }
        /* The sums are exact, here and in fedserver_trimmed_mean. */
        assert_true(f.u[i] == (float)(sum / (double)(count - 2 * cut)));
    }
}

FED_TEST(the_middle_is_found_in_any_number_of_values) {
    for (size_t count = 1; count <= MOST; count += count < 20 ? 1 : 7) {
        fill(count);
        check_trimmed(count, 0);
        check_trimmed(count, (count - 1) / 2);
        check_trimmed(count, (count - 1) / 3);
        clear();
    }
}

FED_TEST(krum_chooses_by_nearness) {
    fed_error err = {0};
    enum { COUNT = 40, BEST = 23 };
    fill(COUNT);
    fedserver_rows_close(&f.rows);
    assert_fed_ok_err(fedserver_rows_open(&f.rows, f.directory, COLUMNS, &err));
    for (size_t k = 0; k < COUNT; k++) {
        for (size_t i = 0; i < COLUMNS; i++) {
            f.x[k][i] *= k == BEST ? 0.25f : 1.0f;
        }
        assert_fed_ok_err(fedserver_rows_add(&f.rows, (int64_t)k, 1, f.x[k], &err));
    }
    fedserver_rows_sort(&f.rows);
    assert_fed_ok_err(fedserver_krum_mean(&f.rows, 5, 1, f.u, &err));
    assert_memory_equal(f.u, f.x[BEST], sizeof f.u);
    clear();
}

FED_TEST(with_as_many_chosen_as_there_are_krum_is_the_mean) {
    fed_error err = {0};
    for (size_t count = 1; count < 5; count++) {
        fill(count);
        assert_fed_ok_err(fedserver_krum_mean(&f.rows, 2, count, f.u, &err));
        for (size_t i = 0; i < COLUMNS; i++) {
            double sum = 0;
            for (size_t k = 0; k < count; k++) {
                sum += (double)f.x[k][i];
            }
            assert_true(f.u[i] == (float)(sum / (double)count));
        }
        clear();
    }
}

FED_TEST(of_equal_updates_the_first_device_s_is_taken) {
    fed_error err = {0};
    fill(1);
    for (size_t k = 1; k < 6; k++) {
        assert_fed_ok_err(fedserver_rows_add(&f.rows, (int64_t)k, 1, f.x[0], &err));
    }
    assert_fed_ok_err(fedserver_krum_mean(&f.rows, 1, 1, f.u, &err));
    assert_memory_equal(f.u, f.x[0], sizeof f.u);
    clear();
}
