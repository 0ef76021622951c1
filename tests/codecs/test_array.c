/* The codecs on one array: nothing is lost, and a refused input changes nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "codec_spec.h"
#include "fed/model.h"
#include "fed_cases.h"
#include "fedcodec/array.h"
#include "fedcodec/codec.h"

enum { N = 1000 };

static void fill(float *x, unsigned seed) {
    for (unsigned i = 0; i < N; i++) {
        x[i] = (float)((i * 7919u + seed) % 2003u) * 0x1p-10f - 1;
    }
}

static fed_writer encode(const char *spec, const float *x, float *residual) {
    fed_error err = {0};
    fed_writer out;
    fed_writer_growing(&out);
    assert_fed_ok_err(fedcodec_array_encode(spec, x, N, residual, &out, &err));
    return out;
}

FED_TEST(every_codec_comes_back_and_says_its_count) {
    float x[N], y[N];
    fill(x, 1);
    for (size_t k = 0; codec_spec_at(k) != NULL; k++) {
        fed_writer out = encode(codec_spec_at(k), x, NULL);
        size_t n = 0;
        fed_error err = {0};
        assert_fed_ok_err(fedcodec_array_count(out.data, out.len, &n, &err));
        assert_int_equal(n, N);
        assert_fed_ok_err(fedcodec_array_decode(out.data, out.len, y, N, &err));
        assert_true(fed_first_nonfinite(y, N) == N);
        fed_writer_free(&out);
    }
}

FED_TEST(rows_are_the_largest_divisor_up_to_the_root) {
    static const size_t n[] = {0, 1, 2, 7, 12, 16, 1000, 4294967295U};
    static const size_t rows[] = {0, 1, 1, 1, 3, 4, 25, 65535};
    for (size_t k = 0; k < sizeof n / sizeof n[0]; k++) {
        assert_int_equal(fedcodec_array_rows(n[k]), rows[k]);
    }
}

/* The array becomes a matrix of 25 rows of 40. */
FED_TEST(a_codec_of_matrices_sees_one_that_is_as_square_as_it_can_be) {
    float x[N];
    fill(x, 1);
    fed_writer out = encode("powersgd:rank=2", x, NULL);
    assert_in_range(out.len, 6 + 4 * 2 * (25 + 40), 20 + 4 * 2 * (25 + 40));
    fed_writer_free(&out);
}

FED_TEST(what_a_message_leaves_out_is_in_the_residual) {
    float x[N], residual[N], before[N], y[N];
    fill(x, 1);
    fill(residual, 2);
    memcpy(before, residual, sizeof before);
    fed_writer out = encode("topk:p=0.1", x, residual);
    fed_error err = {0};
    assert_fed_ok_err(fedcodec_array_decode(out.data, out.len, y, N, &err));
    unsigned sent = 0;
    for (unsigned i = 0; i < N; i++) {
        assert_true(residual[i] == (before[i] + x[i]) - y[i]);
        sent += y[i] != 0;
    }
    assert_int_equal(sent, N / 10);
    fed_writer_free(&out);
}

FED_TEST(a_sum_takes_a_weight) {
    float x[N], y[N];
    fill(x, 3);
    fed_writer out = encode("float32", x, NULL);
    for (unsigned i = 0; i < N; i++) {
        y[i] = 1;
    }
    fed_error err = {0};
    assert_fed_ok_err(fedcodec_array_add(out.data, out.len, 0.5f, y, N, &err));
    for (unsigned i = 0; i < N; i++) {
        assert_true(y[i] == 1 + 0.5f * x[i]);
    }
    fed_writer_free(&out);
}

FED_TEST(bad_arrays_are_refused_in_a_sentence) {
    float x[N], residual[N], before[N];
    fill(x, 1);
    fill(residual, 2);
    memcpy(before, residual, sizeof before);
    fed_error err = {0};
    fed_writer out;
    fed_writer_growing(&out);
    assert_fed_status(fedcodec_array_encode("nosuch", x, N, NULL, &out, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "nosuch"));
    assert_fed_status(fedcodec_array_encode("sbc", x, 0, NULL, &out, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "0 values"));
    x[7] = NAN;
    assert_fed_status(fedcodec_array_encode("sbc", x, N, residual, &out, &err), FED_ENONFINITE);
    assert_non_null(strstr(err.text, "NaN"));
    assert_memory_equal(residual, before, sizeof before);
    assert_int_equal(out.len, 0);
    fed_writer_free(&out);
}

FED_TEST(bad_messages_leave_the_values_alone) {
    float x[N], y[N], before[N];
    fill(x, 1);
    fill(y, 2);
    memcpy(before, y, sizeof before);
    fed_writer out = encode("3lc:s=1", x, NULL);
    fed_error err = {0};
    size_t n = 5;
    assert_fed_status(fedcodec_array_count(out.data, out.len - 1, &n, &err), FED_EFORMAT);
    assert_true(err.text[0] != '\0');
    assert_int_equal(n, 5);
    assert_fed_status(fedcodec_array_decode(out.data, out.len - 1, y, N, &err), FED_EFORMAT);
    assert_fed_status(fedcodec_array_decode(out.data, out.len, y, N - 1, &err), FED_EFORMAT);
    assert_fed_status(fedcodec_array_add(out.data, out.len, 1, y, N - 1, &err), FED_EFORMAT);
    assert_memory_equal(y, before, sizeof before);
    fed_writer_free(&out);
}
