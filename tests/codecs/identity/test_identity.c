/* The codec float32: values arrive to the bit, and must be finite. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedcodec/codec.h"

FED_TEST(values_come_back_to_the_bit) {
    const float x[5] = {1.5f, -0.0f, 0.0f, 1e-45f, -3.4e38f};
    float residual[5], y[5] = {9.0f};
    uint8_t dst[20];
    size_t len = 0;
    fedcodec codec;
    memcpy(residual, x, sizeof x);
    assert_fed_ok(fedcodec_parse("float32", &codec, NULL));
    assert_fed_ok(fedcodec_encode(&codec, residual, NULL, 5, NULL, dst, sizeof dst, &len));
    assert_int_equal(len, 20);
    assert_memory_equal(dst, "\x00\x00\xc0\x3f\x00\x00\x00\x80", 8);
    assert_fed_ok(fedcodec_decode(codec.vtable, dst, len, y, 5));
    assert_memory_equal(y, x, sizeof x);
}

FED_TEST(nan_and_infinity_are_refused) {
    float y[1];
    const fedcodec_vtable *codec = fedcodec_by_id(1);
    const uint8_t nan[] = {0, 0, 0xc0, 0x7f}, infinity[] = {0, 0, 0x80, 0xff};
    assert_fed_status(fedcodec_decode(codec, nan, 4, y, 1), FED_EFORMAT);
    assert_fed_status(fedcodec_decode(codec, infinity, 4, y, 1), FED_EFORMAT);
}
