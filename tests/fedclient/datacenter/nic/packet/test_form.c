/* The payload of a compressed segment: written, truncated, malformed, rounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/form.h"

enum { E = 10, N = 400, BYTES = 4 * N };

static uint8_t plain[BYTES + 8], rounded[BYTES + 8], coded[BYTES + 8], got[FEDNIC_PLAIN_MOST];
static float floats[N];

static int make_values(void **state) {
    (void)state;
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    for (size_t i = 0; i < N; i++) {
        float x = (fed_rng_float(&rng) - 0.5f) * 0.1f;
        memcpy(plain + 4 * i, &x, 4);
    }
    return 0;
}

FED_TEST(the_lead_is_the_rest_of_a_float) {
    const size_t wanted[] = {0, 3, 2, 1};
    for (uint32_t at = 0; at < 9; at++) {
        assert_int_equal(fednic_form_lead(at, 100), wanted[at % 4]);
        assert_int_equal(fednic_form_lead(at, 1), wanted[at % 4] > 0);
    }
    assert_int_equal(fednic_form_lead(UINT32_MAX, 100), 1);
}

FED_TEST(what_is_written_is_read_rounded) {
    for (size_t len = 1; len < BYTES; len += len < 80 ? 1 : 97) {
        for (size_t lead = 0; lead < 4 && lead <= len; lead++) {
            size_t taken = 0;
            size_t bytes = fednic_form_write(E, plain, len, lead, len + 5, coded, &taken);
            bool changed = fednic_form_round(E, plain, len, lead, floats, rounded);
            assert_int_equal(changed, memcmp(plain, rounded, len) != 0);
            if (bytes >= taken) { /* a payload that saves no bytes is not accepted */
                assert_int_equal(fednic_form_read(coded, bytes, got), 0);
                continue;
            }
            assert_true(bytes < len);
            assert_int_equal(fednic_form_read(coded, bytes, got), taken);
            assert_memory_equal(got, rounded, taken);
        }
    }
}

FED_TEST(what_does_not_fit_is_left_at_the_border_of_a_float) {
    for (size_t limit = 0; limit < 700; limit += 7) {
        size_t taken = 0;
        size_t bytes = fednic_form_write(E, plain, BYTES - 1, 3, limit, coded, &taken);
        assert_true(bytes <= limit);
        if (bytes > 0 && taken < BYTES - 1) {
            assert_int_equal(taken % 32, 3);
        }
        if (bytes < taken) {
            assert_int_equal(fednic_form_read(coded, bytes, got), taken);
        }
    }
}

FED_TEST(what_is_malformed_is_refused) {
    size_t taken = 0;
    const size_t bytes = fednic_form_write(E, plain, 300, 1, 299, coded, &taken);
    assert_int_equal(fednic_form_read(coded, bytes, got), 300);
    for (size_t len = 0; len < bytes; len++) {
        uint8_t *copy = malloc(len + 1); /* not 0 bytes: malloc(0) may give NULL */
        memcpy(copy, coded, len);
        assert_int_equal(fednic_form_read(copy, len, got), 0);
        free(copy);
    }
    const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 0x0f}, {0, 0}, {1, 1}, {2, 4}, {2, 255}, {3, 1}, {2, 0}, {1, 0x20}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        uint8_t was = coded[wrong[k].at];
        coded[wrong[k].at] = wrong[k].value;
        assert_int_equal(fednic_form_read(coded, bytes, got), 0);
        coded[wrong[k].at] = was;
    }
    assert_int_equal(fednic_form_read(coded, bytes, got), 300);
    const uint8_t longest[] = {0xff, 0xff, 0, 0, 0, 0};
    assert_int_equal(fednic_form_read(longest, sizeof longest, got), 0);
}

int main(void) {
    return fed_cases_run(make_values, NULL);
}
