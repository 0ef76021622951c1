/* The waiting times that devices are told: a few devices, and a crowd that must be spread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/rng.h"
#include "fedserver/rounds/pace.h"

FED_TEST(a_few_devices_come_back_soon) {
    for (uint64_t devices = 0; devices <= 20; devices++) {
        assert_in_range(fedserver_pace_ms(1000, devices, 0), 750, 750);
        assert_in_range(fedserver_pace_ms(1000, devices, UINT32_MAX), 1240, 1250);
    }
}

/* Return the check-ins per second of a crowd that waits as long as it is told. */
static double rate(uint64_t devices) {
    fed_rng rng;
    double sum_ms = 0;
    fed_rng_init(&rng, 1, (uint32_t)devices, 0);
    for (int k = 0; k < 10000; k++) {
        sum_ms += fedserver_pace_ms(5000, devices, fed_rng_u32(&rng));
    }
    return (double)devices / (sum_ms / 10000 / 1000);
}

FED_TEST(a_crowd_makes_at_most_a_hundred_check_ins_a_second) {
    assert_true(rate(100) < 25);
    assert_true(rate(4000) > 60 && rate(4000) < 100);
    assert_true(rate(45000) < 102);
}

FED_TEST(nobody_is_sent_away_for_more_than_a_quarter_of_an_hour) {
    assert_in_range(fedserver_pace_ms(10000, UINT64_MAX, UINT32_MAX), 900000, 907500);
}

FED_TEST(waits_are_spread_over_the_whole_window) {
    fed_rng rng;
    int seen[8] = {0};
    fed_rng_init(&rng, 2, 0, 0);
    for (int k = 0; k < 8000; k++) {
        uint32_t wait_ms = fedserver_pace_ms(4000, 4000, fed_rng_u32(&rng)) - 3000;
        assert_in_range(wait_ms, 0, 79999);
        seen[wait_ms / 10000]++;
    }
    for (int k = 0; k < 8; k++) {
        assert_in_range(seen[k], 850, 1150); /* 5 sigma */
    }
}
