/* Sums of 16-bit words, compared with a simple loop, and updates of a checksum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/checksum.h"

enum { MOST = 70000 };

static uint16_t plain_sum(const uint8_t *data, size_t len) {
    uint32_t sum = 0;
    for (size_t i = 0; i < len; i++) {
        sum += i % 2 == 0 ? (uint32_t)data[i] << 8 : data[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

FED_TEST(a_sum_is_that_of_a_plain_loop) {
    static uint8_t data[MOST];
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t len = 0; len < MOST; len += len < 100 ? 1 : 4999) {
        for (size_t i = 0; i < len; i++) {
            data[i] = (uint8_t)fed_rng_u32(&rng);
        }
        assert_int_equal(fednic_sum(data, len) % 0xffff, plain_sum(data, len) % 0xffff);
        memset(data, 0xff, len);
        assert_int_equal(fednic_sum(data, len), plain_sum(data, len));
        memset(data, 0, len);
        assert_int_equal(fednic_sum(data, len), 0);
    }
}

static uint8_t one_in_two_is_zero(fed_rng *rng) {
    return (uint8_t)(fed_rng_below(rng, 2) == 0 ? 0 : fed_rng_u32(rng));
}

FED_TEST(an_updated_checksum_is_right_and_a_wrong_one_stays_wrong) {
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 4);
    for (int k = 0; k < 1000; k++) {
        uint8_t data[64];
        for (size_t i = 0; i < sizeof data; i++) {
            data[i] = one_in_two_is_zero(&rng);
        }
        uint16_t field = (uint16_t)~plain_sum(data, sizeof data), old = plain_sum(data, 8);
        for (size_t i = 0; i < 8; i++) {
            data[i] = one_in_two_is_zero(&rng);
        }
        uint16_t gained = plain_sum(data, 8), all = plain_sum(data, sizeof data);
        uint16_t right = fednic_checksum_update(field, old, gained);
        assert_int_equal((all + right) % 0xffff, 0);
        uint16_t wrong = fednic_checksum_update((uint16_t)(field ^ 0x100), old, gained);
        assert_int_not_equal((all + wrong) % 0xffff, 0);
    }
}
