/* The public functions for one tensor, as far as the codec contract does not test them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_spec.h"
#include "fed/rng.h"
#include "fed/threads.h"
#include "fedcodec/codec_vtable.h"

FED_TEST(a_codec_that_needs_work_memory_says_so) {
    float residual[10] = {1.0f};
    uint8_t dst[64];
    size_t len = 99;
    fedcodec codec;
    assert_fed_ok(fedcodec_parse("sbc", &codec, NULL));
    assert_true(fedcodec_work_size(&codec, 10) > 0);
    assert_fed_status(fedcodec_encode(&codec, residual, NULL, 10, NULL, dst, sizeof dst, &len),
                      FED_EINVAL);
    assert_int_equal(len, 99);
}

FED_TEST(more_values_than_a_message_can_hold_are_refused) {
    float residual[1] = {1.0f};
    uint8_t dst[64];
    size_t len, n = (size_t)UINT32_MAX + 1;
    fedcodec codec;
    assert_fed_ok(fedcodec_parse("float32", &codec, NULL));
    assert_fed_status(fedcodec_encode(&codec, residual, NULL, n, NULL, dst, SIZE_MAX, &len),
                      FED_EINVAL);
    assert_fed_status(fedcodec_decode(codec.vtable, dst, sizeof dst, residual, n), FED_EINVAL);
}

/* The codec threshold needs more, because its lists may have to hold every value and its
 * position. */
FED_TEST(work_memory_is_a_fraction_of_a_large_tensor) {
    enum { N = 431080, SLACK = 512 };
    fedcodec codec;
    for (size_t k = 0; codec_spec_at(k) != NULL; k++) {
        assert_fed_ok(fedcodec_parse(codec_spec_at(k), &codec, NULL));
        const bool lists_all = strcmp(fedcodec_name(codec.vtable), "threshold") == 0;
        assert_true(fedcodec_work_size(&codec, N) <
                    (lists_all ? 2 * N * sizeof(float) + SLACK + 1 : N * sizeof(float) / 2));
    }
}

static bool keeps_negative_zeros(const char *name) {
    static const char *const names[] = {"float32", "float16", "bfloat16", "trunc", "powersgd"};
    bool found = false;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        found = found || strcmp(names[k], name) == 0;
    }
    return found;
}

/* As docs/codec-formats.md says. So few values powersgd sends as they are. A message of onebit has
 * no zeros, and eden adds all values of a bucket up: their -0 is another value. */
FED_TEST(a_negative_zero_arrives_by_codecs_that_keep_it) {
    enum { N = 4 };
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        float r[N] = {-0.0F, 1.0F, -2.0F, 3.0F}, y[N];
        uint8_t dst[256], work[4096];
        size_t len;
        fedcodec codec;
        const char *name = fedcodec_name(fedcodec_at(k));
        assert_fed_ok(fedcodec_parse(codec_spec_of(fedcodec_at(k)), &codec, NULL));
        assert_true(fedcodec_work_size(&codec, N) <= sizeof work);
        assert_fed_ok(fedcodec_encode(&codec, r, NULL, N, work, dst, sizeof dst, &len));
        assert_fed_ok(fedcodec_decode(codec.vtable, dst, len, y, N));
        assert_int_equal(y[0] == 0.0F && signbit(y[0]) != 0, keeps_negative_zeros(name));
    }
}

FED_TEST(threads_make_the_same_message) {
    enum { N = 300001 };
    static float x[N], residual[2][N];
    fed_threads *threads = NULL;
    assert_fed_ok(fed_threads_open(4, &threads, NULL));
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    for (size_t i = 0; i < N; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
    fedcodec codec;
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        assert_fed_ok(fedcodec_parse(codec_spec_of(fedcodec_at(k)), &codec, NULL));
        size_t cap = fedcodec_bound(&codec, N), len[2];
        uint8_t *dst[2] = {malloc(cap), malloc(cap)};
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        memset(residual, 0, sizeof residual);
        for (size_t i = 0; i < 2; i++) {
            codec.pool = i == 0 ? NULL : fed_threads_pool(threads);
            assert_fed_ok(fedcodec_encode(&codec, residual[i], x, N, work, dst[i], cap, &len[i]));
        }
        assert_int_equal(len[1], len[0]);
        assert_memory_equal(dst[1], dst[0], len[0]);
        assert_memory_equal(residual[1], residual[0], sizeof residual[0]);
        free(dst[0]);
        free(dst[1]);
        free(work);
    }
    fed_threads_close(threads);
}
