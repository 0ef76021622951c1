/* Groups follow from the set of devices and the round alone, and have the same size. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/grouping.h"

#include "fed_cases.h"

#include <string.h>

#include "fed/crypto.h"

enum { DEVICES = 103, GROUPS = 5 };

static uint8_t devices[DEVICES][FED_SHA256_SIZE];

static fedserver_grouping the_round(void) {
    for (size_t k = 0; k < DEVICES; k++) {
        fed_sha256(&k, sizeof k, devices[k]);
    }
    return (fedserver_grouping){.task = 3, .round = 9, .model = {7}, .groups = GROUPS};
}

static void deal(const fedserver_grouping *which, uint32_t group[DEVICES]) {
    assert_fed_ok(fedserver_grouping_deal(which, devices, DEVICES, group));
}

FED_TEST(sizes_differ_by_one_at_most) {
    const fedserver_grouping which = the_round();
    uint32_t group[DEVICES];
    for (size_t count = 0; count <= DEVICES; count++) {
        size_t size[GROUPS] = {0};
        assert_fed_ok(fedserver_grouping_deal(&which, devices, count, group));
        for (size_t k = 0; k < count; k++) {
            assert_true(group[k] < GROUPS);
            size[group[k]]++;
        }
        for (size_t g = 0; g < GROUPS; g++) {
            assert_true(size[g] == count / GROUPS || size[g] == count / GROUPS + 1);
        }
    }
}

FED_TEST(the_order_of_the_devices_does_not_matter) {
    const fedserver_grouping which = the_round();
    uint32_t group[DEVICES], turned[DEVICES];
    uint8_t keep[FED_SHA256_SIZE];
    deal(&which, group);
    for (size_t k = 0; k < DEVICES / 2; k++) {
        memcpy(keep, devices[k], sizeof keep);
        memcpy(devices[k], devices[DEVICES - 1 - k], sizeof keep);
        memcpy(devices[DEVICES - 1 - k], keep, sizeof keep);
    }
    deal(&which, turned);
    for (size_t k = 0; k < DEVICES; k++) {
        assert_int_equal(group[k], turned[DEVICES - 1 - k]);
    }
}

static size_t together(const uint32_t a[DEVICES], const uint32_t b[DEVICES]) {
    size_t same = 0;
    for (size_t k = 0; k < DEVICES; k++) {
        same += a[k] == b[k];
    }
    return same;
}

/* Of unrelated groupings a fifth of the devices agree: 21 of 103, and 45 with less than 10^-8. */
FED_TEST(task_round_model_and_each_device_decide) {
    const fedserver_grouping which = the_round();
    fedserver_grouping other[3] = {which, which, which};
    uint32_t group[DEVICES], changed[DEVICES];
    deal(&which, group);
    other[0].task++;
    other[1].round++;
    other[2].model[31] ^= 1;
    for (size_t k = 0; k < 3; k++) {
        deal(&other[k], changed);
        assert_in_range(together(group, changed), 2, 45);
    }
    devices[4][0] ^= 1; /* the places behind the old and the new one move on */
    deal(&which, changed);
    assert_memory_not_equal(group, changed, sizeof group);
}

/* For ever: helpers and coordinators of later releases find the same groups. The expected ones are
 * of ten lines of Python with hashlib. */
FED_TEST(the_groups_of_a_known_set_are_these) {
    static const uint32_t first[12] = {4, 1, 3, 0, 3, 0, 1, 1, 2, 4, 0, 2};
    const fedserver_grouping which = the_round();
    uint32_t group[DEVICES];
    assert_fed_ok(fedserver_grouping_deal(&which, devices, 12, group));
    assert_memory_equal(group, first, sizeof first);
}

FED_TEST(each_group_has_a_digest_of_its_own) {
    uint8_t set[FED_SHA256_SIZE] = {1, 2, 3}, one[FED_SHA256_SIZE], other[FED_SHA256_SIZE];
    fedserver_grouping_set(set, 1, 0, one);
    assert_memory_equal(set, one, sizeof set);
    fedserver_grouping_set(set, 3, 0, one);
    fedserver_grouping_set(set, 3, 1, other);
    assert_memory_not_equal(one, set, sizeof set);
    assert_memory_not_equal(one, other, sizeof one);
    set[31] ^= 1;
    fedserver_grouping_set(set, 3, 1, one);
    assert_memory_not_equal(one, other, sizeof one);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
