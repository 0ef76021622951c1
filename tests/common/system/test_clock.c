/* Clocks: their units, and that time advances. No test measures how fast. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/clock.h"

FED_TEST(test_the_wall_clock_counts_milliseconds_since_1970) {
    int64_t now = fed_clock_unix_ms();
    assert_true(now > INT64_C(1700000000000)); /* 2023 */
    assert_true(now < INT64_C(4102444800000)); /* 2100 */
}

FED_TEST(test_the_monotonic_clock_never_goes_back_and_covers_a_sleep) {
    int64_t before = fed_clock_monotonic_ms();
    fed_sleep_ms(20);
    assert_true(fed_clock_monotonic_ms() - before >= 19);
}

FED_TEST(test_no_time_to_sleep_returns_at_once) {
    fed_sleep_ms(0);
    fed_sleep_ms(-5);
}

FED_TEST(test_the_thread_clock_counts_work) {
    int64_t before = fed_clock_thread_cpu_us();
    assert_true(before >= 0);
    while (fed_clock_thread_cpu_us() < before + 1000) {
    }
}
