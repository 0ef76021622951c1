/* The waiting time after repeated failures. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/steps/steps.h"

FED_TEST(waits_double_from_200_ms_to_a_minute) {
    uint32_t most = 400;
    for (unsigned failures = 1; failures < 40; failures++) {
        uint32_t wait = fedclient_backoff_ms("device", failures, 0);
        assert_in_range(wait, most / 2, most);
        most = most * 2 < 60000 ? most * 2 : 60000;
    }
    assert_in_range(fedclient_backoff_ms("device", 4000000000U, 0), 30000, 60000);
}

FED_TEST(who_was_told_to_wait_longer_does) {
    const uint32_t told = 15 * 60000;
    uint32_t most = told / 32;
    for (unsigned failures = 1; failures < 40; failures++) {
        assert_in_range(fedclient_backoff_ms("device", failures, told), most / 2, most);
        most = most * 2 < told ? most * 2 : told;
    }
    assert_int_equal(fedclient_backoff_ms("device", 1, 5000), fedclient_backoff_ms("device", 1, 0));
    assert_in_range(fedclient_backoff_ms("device", 4000000000U, UINT32_MAX), UINT32_MAX / 2,
                    UINT32_MAX);
}

FED_TEST(devices_cut_off_together_come_back_apart) {
    enum { DEVICES = 200, SLOTS = 10 };
    unsigned slots[SLOTS] = {0};
    for (unsigned k = 0; k < DEVICES; k++) {
        char device[16];
        snprintf(device, sizeof device, "%u", k);
        slots[(fedclient_backoff_ms(device, 20, 0) - 30000) * (SLOTS - 1) / 30000]++;
    }
    for (unsigned k = 0; k + 1 < SLOTS; k++) {
        assert_in_range(slots[k], 5, 60);
    }
}

FED_TEST(who_is_refused_waits_four_hours_or_so) {
    uint32_t least = UINT32_MAX, most = 0;
    for (unsigned k = 0; k < 200; k++) {
        char device[16];
        snprintf(device, sizeof device, "%u", k);
        uint32_t wait = fedclient_refused_ms(device);
        least = wait < least ? wait : least;
        most = wait > most ? wait : most;
    }
    const uint32_t minute = 60000;
    assert_in_range(least, 192 * minute, 200 * minute); /* 240 minutes less 20 % */
    assert_in_range(most, 280 * minute, 288 * minute);
}
