/* The table of custom metrics that devices report, summed up by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "fedserver/rounds/own_table.h"

static void tell(fedserver_own_table *table, uint32_t samples, const char *name, double value) {
    fed_own_metrics told = {.count = 0};
    assert_fed_ok(fed_own_metrics_set(&told, name, value, NULL));
    fedserver_own_count(table, &told, samples);
}

FED_TEST(the_mean_is_weighted_by_samples) {
    fedserver_own_table t = {.count = 0};
    tell(&t, 10, "f1", 1);
    tell(&t, 30, "f1", 3);
    tell(&t, 40, "f1", -2);
    assert_int_equal(t.count, 1);
    const fedserver_own_metric *row = &t.rows[0];
    assert_string_equal(row->name, "f1");
    assert_true(row->reports == 3 && row->samples == 80);
    assert_true(fabs(row->mean - 0.25) < 1e-12); /* (10 + 90 - 80) / 80 */
    assert_true(row->least == -2 && row->most == 3);
}

FED_TEST(names_come_in_order_whoever_reports_first) {
    static const char *const names[] = {"c", "a", "d", "b", "a"};
    fedserver_own_table t = {.count = 0};
    for (size_t k = 0; k < 5; k++) {
        tell(&t, 1, names[k], (double)k);
    }
    assert_int_equal(t.count, 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(t.rows[k].name[0], 'a' + (int)k);
    }
    assert_true(t.rows[0].reports == 2 && t.rows[0].mean == 2.5);
}

FED_TEST(the_largest_numbers_do_not_overflow) {
    fedserver_own_table t = {.count = 0};
    for (int k = 0; k < 100; k++) {
        tell(&t, UINT32_MAX - (uint32_t)k, "x", DBL_MAX);
        assert_true(t.rows[0].mean == DBL_MAX);
    }
    tell(&t, UINT32_MAX, "x", -DBL_MAX);
    assert_true(isfinite(t.rows[0].mean) && t.rows[0].least == -DBL_MAX);
}

FED_TEST(equal_values_have_that_mean_to_the_bit) {
    fedserver_own_table t = {.count = 0};
    for (uint32_t k = 1; k < 1000; k++) {
        tell(&t, 7 * k, "x", 0.1);
    }
    assert_true(t.rows[0].mean == 0.1 && t.rows[0].reports == 999);
}

FED_TEST(names_beyond_the_limit_are_dropped_and_counted) {
    fedserver_own_table t = {.count = 0};
    char name[16];
    for (int k = 0; k < 1000; k++) {
        snprintf(name, sizeof name, "n%03d", 999 - k);
        tell(&t, 1, name, k);
    }
    assert_int_equal(t.count, FEDSERVER_OWN_NAMES);
    assert_int_equal(t.dropped, 1000 - FEDSERVER_OWN_NAMES);
    tell(&t, 1, "n999", 5);
    assert_string_equal(t.rows[FEDSERVER_OWN_NAMES - 1].name, "n999");
    assert_int_equal(t.rows[FEDSERVER_OWN_NAMES - 1].reports, 2);
}

FED_TEST(sums_of_sums_are_the_sum_of_all) {
    fedserver_own_table one = {.count = 0}, other = {.count = 0};
    tell(&one, 3, "x", 1);
    tell(&one, 1, "x", 5);
    tell(&other, 4, "x", -2);
    tell(&other, 4, "y", 9);
    fedserver_own_add(&one, &other.rows[0]);
    fedserver_own_add(&one, &other.rows[1]);
    assert_true(one.rows[0].reports == 3 && one.rows[0].samples == 8 && one.rows[0].mean == 0);
    assert_true(one.rows[0].least == -2 && one.rows[0].most == 5 && one.rows[1].mean == 9);
}
