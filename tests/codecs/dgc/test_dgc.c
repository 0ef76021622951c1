/* dgc: which values it sends, its bytes worked out by hand, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_case.h"
#include "fedcodec/codec.h"

enum { DGC = 10 };

static fed_status decode(const void *src, size_t len, float *y, size_t n) {
    return fedcodec_decode(fedcodec_by_id(DGC), src, len, y, n);
}

FED_TEST(bytes_are_count_code_values_and_gaps) {
    float x[20] = {[2] = 4.0f, [3] = 0.5f, [9] = -1.0f, [17] = -2.0f};
    uint8_t dst[64];
    assert_int_equal(codec_case_encode("dgc:p=0.1", x, 20, dst, sizeof dst), 12);
    /* The count of positions, 2; Golomb's parameter b, 3; the values 4 and -2; the gaps 2 (bits
     * 0 010) and 14 (bits 10 110); ones to the end of the byte. */
    assert_memory_equal(dst, "\x02\x03\x00\x00\x80\x40\x00\x00\x00\xc0\x2b\x7f", 12);
    assert_true(x[2] == 0.0f && x[3] == 0.5f && x[9] == -1.0f && x[17] == 0.0f);
}

FED_TEST(values_arrive_to_the_bit_at_their_places) {
    float x[600], before[600], y[600];
    uint8_t dst[4096];
    for (size_t i = 0; i < 600; i++) {
        before[i] = x[i] = (float)((int)(i * 7919 % 601) - 300) * 1e-3f;
    }
    size_t len = codec_case_encode("dgc:p=0.5,pos=auto", x, 600, dst, sizeof dst);
    assert_fed_ok(decode(dst, len, y, 600));
    size_t sent = 0;
    for (size_t i = 0; i < 600; i++) {
        assert_true(y[i] != 0.0f ? y[i] == before[i] && x[i] == 0.0f : x[i] == before[i]);
        sent += y[i] != 0.0f;
    }
    assert_int_equal(sent, 300);
}

FED_TEST(narrow_values_follow_their_name) {
    float x[20] = {[2] = 4.0f, [3] = 0.5f, [9] = -1.0f, [17] = -2.015625f};
    float again[20];
    uint8_t dst[64];
    memcpy(again, x, sizeof x);
    assert_int_equal(codec_case_encode("dgc:p=0.1,values=bfloat16", x, 20, dst, sizeof dst), 9);
    assert_memory_equal(dst, "\x02\x61\x03\x80\x40\x01\xc0\x2b\x7f", 9);
    assert_true(x[2] == 0.0f && x[3] == 0.5f && x[17] == 0.0f);
    assert_int_equal(codec_case_encode("dgc:p=0.1,values=int8", again, 20, dst, sizeof dst), 11);
    assert_memory_equal(dst + 7, "\x7f\xc0\x2b\x7f", 4); /* levels 127 and -64 */
    assert_true(fabsf(again[2]) < 1e-6f);
    assert_true(again[17] != 0.0f && fabsf(again[17]) < 0.016f);
}

FED_TEST(malformed_messages_are_refused) {
    float y[32];
    assert_fed_ok(decode("\x01\x00\x00\x00\x80\xbf\x7f", 7, y, 1));
    assert_true(y[0] == -1.0f);
    /* two positions, but the tensor has one value */
    assert_refuses(DGC, "\x02\x00\x00\x00\x80\x3f\x00\x00\x80\x3f\x3f", 1);
    assert_refuses(DGC, "\x01\x00\x00\x00\x00\x00\x7f", 1); /* a value of 0 */
    assert_refuses(DGC, "\x01\x00\x00\x00\x80\x7f\x7f", 1); /* infinity */
    assert_refuses(DGC, "\x01\x00\x00\x00\xc0\x7f\x7f", 1); /* NaN */
    assert_refuses(DGC, "\x01\xe0\x00\x00\x80\x3f\x7f", 1); /* an unknown code of positions */
    assert_refuses(DGC, "\x01\x00\x00\x00\x80\x3f\xbf", 1); /* position 1 is past the end */
    assert_refuses(DGC, "\x01\x00\x00\x00\x80", 1);         /* cut within the value */
    assert_refuses(DGC, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 1);
    assert_refuses(DGC, "\x00\x00", 1); /* bytes after an empty message */
    assert_accepts(DGC, "\x01\x61\x00\x80\x3f\x7f", 1);
    assert_refuses(DGC, "\x01\x61\x00\x00\x00\x7f", 1);         /* a value of 0 */
    assert_refuses(DGC, "\x01\x61\x61\x80\x3f\x7f", 1);         /* the form is named twice */
    assert_refuses(DGC, "\x01\x60\x00\x00\x00\x80\x3f\x7f", 1); /* the default form is named */
    assert_refuses(DGC, "\x01\x63\x00\x80\x3f\x7f", 1);         /* an unknown form of values */
    assert_accepts(DGC, "\x01\x62\x00\x00\x00\x80\x3f\x7f\x7f", 1);
    assert_refuses(DGC, "\x01\x62\x00\x00\x00\x80\x3f\x01\x7f", 1); /* no value has level 127 */
    assert_refuses(DGC, "\x01\x62", 1);
}
