/* Clearing buffers: all given values are cleared, and no others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/prim/fetch.h"

enum { AROUND = 8 };

static void check_clear(float *buffer, size_t lead, size_t n) {
    for (size_t i = 0; i < n + 2 * AROUND; i++) {
        buffer[i] = 1.0f;
    }
    fedcodec_clear(buffer + lead, n);
    for (size_t i = 0; i < n + 2 * AROUND; i++) {
        assert_true(buffer[i] == (i >= lead && i < lead + n ? 0.0f : 1.0f));
    }
}

FED_TEST(clears_these_values_and_no_others) {
    float *buffer = malloc((FEDCODEC_NEAR + 3 * AROUND) * sizeof *buffer);
    assert_non_null(buffer);
    for (size_t lead = 0; lead < AROUND; lead++) {
        check_clear(buffer, lead, 0);
        check_clear(buffer, lead, 37);
        check_clear(buffer, lead, FEDCODEC_NEAR + 1 + lead % 5);
    }
    free(buffer);
}
