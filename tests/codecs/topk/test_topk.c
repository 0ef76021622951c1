/* topk: which values it sends, its bytes worked out by hand, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>

#include "codec_case.h"
#include "fed/rng.h"

FED_TEST(bytes_are_a_bitmap_and_values) {
    const float x[10] = {0.5f, -2.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.25f, 0.0f, 1.5f};
    const float y[10] = {[1] = -2.0f, [9] = 1.5f}, left[10] = {0.5f, [3] = 1.0f, [7] = 0.25f};
    assert_codec_message("topk:p=0.2", x, y, 10, "\x40\x40\x00\x00\x00\xc0\x00\x00\xc0\x3f", 10);
    codec_case c = codec_case_of("topk:p=0.2", x, 10);
    assert_memory_equal(c.residual, left, sizeof left);
}

FED_TEST(of_equal_magnitudes_the_first_are_sent) {
    const float x[6] = {1.0f, -1.0f, 1.0f, -1.0f, 1.0f, -1.0f}, y[6] = {1.0f, -1.0f, 1.0f};
    codec_case c = codec_case_of("topk:p=0.5", x, 6);
    assert_memory_equal(c.decoded, y, sizeof y);
}

FED_TEST(zeros_are_never_sent) {
    const float x[8] = {[2] = -0.0f, [5] = 3.0f};
    assert_int_equal(codec_case_of("topk:p=1", x, 8).len, 1 + 4);
}

FED_TEST(one_value_is_sent_however_small_p_is) {
    const float x[3] = {0.5f, -1.0f, 0.75f}, y[3] = {0.0f, -1.0f, 0.0f};
    codec_case c = codec_case_of("topk:p=0.000001", x, 3);
    assert_memory_equal(c.decoded, y, sizeof y);
}

/* The paper's 5 % with a bitmap: 1 + 0.05 * 32 = 2.6 bits a value. */
FED_TEST(exactly_k_of_a_large_tensor_are_sent) {
    enum { N = 100000 };
    fedcodec codec;
    size_t len = 0;
    float *x = malloc(N * sizeof *x);
    assert_fed_ok(fedcodec_parse("topk", &codec, NULL));
    uint8_t *dst = malloc(fedcodec_bound(&codec, N));
    void *work = malloc(fedcodec_work_size(&codec, N));
    fed_rng rng;
    fed_rng_init(&rng, 1, 0, 0);
    for (size_t i = 0; i < N; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
    assert_fed_ok(fedcodec_encode(&codec, x, NULL, N, work, dst, fedcodec_bound(&codec, N), &len));
    assert_int_equal(len, N / 8 + 4 * (N / 20));
    free(x);
    free(dst);
    free(work);
}

FED_TEST(narrow_values_follow_their_name) {
    const float x[10] = {0.5f, -2.015625f, [3] = 1.0f, [9] = 1.5f};
    const float y[10] = {[1] = -2.015625f, [9] = 1.5f};
    assert_codec_message("topk:p=0.2,values=bfloat16", x, y, 10,
                         "\x40\x40\x61\x00\xc0\x7f\x01\xc0\xc0\x3f", 10);
    const float levels[10] = {0.25f, -127.0f, 100.0f, 99.75f};
    const float arrive[10] = {[1] = -127.0f, [2] = 100.0f, [3] = 100.0f};
    assert_codec_message("topk:p=0.4,values=int8", levels, arrive, 10,
                         "\x70\x00\x62\x00\xc0\x7f\x00\x00\x80\x3f\x81\x64\x64", 13);
    codec_case c = codec_case_of("topk:p=0.4,values=int8", levels, 10);
    assert_true(c.residual[0] == 0.25f && c.residual[1] == 0.0f && c.residual[3] == -0.25f);
}

FED_TEST(malformed_messages_are_refused) {
#define ONE "\x00\x00\x80\x3f"
    assert_accepts(9, "\x20" ONE, 3);
    assert_refuses(9, "\x10" ONE, 3);             /* position 3 is past the end */
    assert_refuses(9, "\x60" ONE, 3);             /* a value missing */
    assert_refuses(9, "\x20" ONE ONE, 3);         /* a value too many */
    assert_refuses(9, "\x20" ONE "\x00", 3);      /* a trailing byte */
    assert_refuses(9, "\x20\x00\x00\x00\x00", 3); /* a value of 0 */
    assert_refuses(9, "\x20\x00\x00\x00\x80", 3); /* a value of -0 */
    assert_refuses(9, "\x20\x00\x00\x80\x7f", 3); /* infinity */
    assert_refuses(9, "\x20\x00\x00\xc0\x7f", 3); /* NaN */
#define BFLOAT16 "\x61\x00\xc0\x7f"
    assert_accepts(9, "\x20" BFLOAT16 "\x80\x3f", 3);
    assert_refuses(9, "\x20" BFLOAT16 "\x80", 3);            /* cut within the value */
    assert_refuses(9, "\x20" BFLOAT16 "\x80\x3f\x00", 3);    /* a trailing byte */
    assert_refuses(9, "\x20" BFLOAT16, 3);                   /* a position, but no value */
    assert_refuses(9, "\x20" BFLOAT16 "\x00\x80", 3);        /* -0 */
    assert_refuses(9, "\x00" BFLOAT16, 3);                   /* bfloat16, but no position */
    assert_refuses(9, "\x20\x60\x00\xc0\x7f" ONE, 3);        /* the default form is named */
    assert_refuses(9, "\x20\x62\x00\xc0\x7f" ONE "\x7e", 3); /* no value has level 127 */
    assert_accepts(9, "\x00", 3);
    assert_refuses(9, "", 3);
    assert_accepts(9, "", 0);
    assert_refuses(9, "\x00", 0);
}
