/* stc: which values it sends, its bytes worked out by hand, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_case.h"
#include "fed_cases.h"
#include "fedcodec/codec.h"

enum { STC = 11 };

static fed_status decode(const void *src, size_t len, float *y, size_t n) {
    return fedcodec_decode(fedcodec_by_id(STC), src, len, y, n);
}

FED_TEST(bytes_are_count_code_mean_signs_and_gaps) {
    float x[20] = {[2] = 4.0f, [3] = 0.5f, [9] = -1.0f, [17] = -2.0f};
    uint8_t dst[64];
    assert_int_equal(codec_case_encode("stc:p=0.1", x, 20, dst, sizeof dst), 9);
    /* The count of positions, 2; Golomb's parameter b, 3; the mean 3; the signs (bits 0 and 1),
     * then ones; the gaps 2 (bits 0 010) and 14 (bits 10 110), then ones. */
    assert_memory_equal(dst, "\x02\x03\x00\x00\x40\x40\x7f\x2b\x7f", 9);
    assert_true(x[2] == 1.0f && x[3] == 0.5f && x[9] == -1.0f && x[17] == 1.0f);
}

FED_TEST(signs_follow_their_positions_from_block_to_block) {
    float x[1200], y[1200];
    uint8_t dst[4096];
    for (size_t i = 0; i < 1200; i++) {
        x[i] = i % 2 == 0 ? 0.0f : i % 3 == 0 ? -1.0f : 1.0f;
    }
    size_t len = codec_case_encode("stc:p=0.5,pos=auto", x, 1200, dst, sizeof dst);
    assert_fed_ok(decode(dst, len, y, 1200));
    for (size_t i = 0; i < 1200; i++) {
        assert_true(y[i] == (i % 2 == 0 ? 0.0f : i % 3 == 0 ? -1.0f : 1.0f) && x[i] == 0.0f);
    }
}

FED_TEST(malformed_messages_are_refused) {
    float y[32];
    assert_fed_ok(decode("\x01\x00\x00\x00\x80\x3f\xff\x7f", 8, y, 1));
    assert_true(y[0] == -1.0f);
    assert_refuses(STC, "\x02\x00\x00\x00\x80\x3f\xff\x3f", 1); /* two positions, one value */
    assert_refuses(STC, "\x01\x00\x00\x00\x80\xbf\xff\x7f", 1); /* a negative mean */
    assert_refuses(STC, "\x01\x00\x00\x00\x00\x00\xff\x7f", 1); /* a mean of 0 */
    assert_refuses(STC, "\x01\x00\x00\x00\x80\x7f\xff\x7f", 1); /* infinity */
    assert_refuses(STC, "\x01\x00\x00\x00\xc0\x7f\xff\x7f", 1); /* NaN */
    assert_refuses(STC, "\x01\xe0\x00\x00\x80\x3f\xff\x7f", 1); /* an unknown code of positions */
    assert_refuses(STC, "\x01\x00\x00\x00\x80\x3f\x80\x7f", 1); /* zeros in the signs' padding */
    assert_refuses(STC, "\x01\x00\x00\x00\x80\x3f\xff\xbf", 1); /* position 1 is past the end */
    assert_refuses(STC, "\x01\x00\x00\x00\x80\x3f", 1);         /* no signs */
    assert_refuses(STC, "\x00\x00", 1);                         /* bytes after an empty message */
}
