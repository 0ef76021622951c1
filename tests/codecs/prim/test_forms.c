/* The forms of values of sparse codecs: which values are left out, which arrive, and which bytes
 * are refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codecs/prim/forms.h"
#include "codecs/prim/rounding.h"

enum { N = 5 };

typedef struct sent {
    uint32_t index[N];
    float value[N], residual[2 * N];
    fedcodec_chosen chosen;
    uint8_t bytes[4 * N + 4];
} sent;

static void send(fedcodec_form form, const float *x, sent *s) {
    for (size_t i = 0; i < N; i++) {
        s->index[i] = (uint32_t)(2 * i);
        s->value[i] = x[i];
        s->residual[2 * i] = x[i];
        s->residual[2 * i + 1] = 7.0f;
    }
    s->chosen = (fedcodec_chosen){s->index, s->value, N};
    fedcodec_values_keep(form, &s->chosen);
    fedcodec_values_put(form, s->chosen, s->bytes, s->residual);
}

FED_TEST(a_residual_keeps_what_does_not_arrive) {
    static const float x[N] = {1.01f, -3.3e-5f, 127.3f, -1e-40f, 0.7f};
    for (fedcodec_form form = 0; form < FEDCODEC_FORM_COUNT; form++) {
        sent s;
        float max, arrived[2 * N] = {0}, value[N];
        send(form, x, &s);
        assert_fed_ok(fedcodec_values_check(form, s.bytes, s.chosen.count, &max));
        fedcodec_values_load(form, s.bytes, 0, s.chosen.count, value);
        for (size_t i = 0; i < s.chosen.count; i++) {
            arrived[s.chosen.index[i]] = value[i];
            assert_true(value[i] != 0.0f && fabsf(value[i]) <= max);
        }
        for (size_t i = 0; i < N; i++) {
            assert_true(s.residual[2 * i] == x[i] - arrived[2 * i]);
            assert_true(s.residual[2 * i + 1] == 7.0f);
        }
    }
}

FED_TEST(what_would_arrive_as_0_is_left_out) {
    static const float x[N] = {254.0f, 1.0f, -1.001f, FLT_TRUE_MIN, -254.0f};
    static const size_t left[FEDCODEC_FORM_COUNT] = {5, 4, 3}; /* int8 rounds half a level to 0 */
    for (fedcodec_form form = 0; form < FEDCODEC_FORM_COUNT; form++) {
        sent s;
        send(form, x, &s);
        assert_int_equal(s.chosen.count, left[form]);
        assert_true(s.chosen.value[left[form] - 1] == -254.0f);
        assert_int_equal(s.chosen.index[left[form] - 1], 8);
    }
}

/* For such small values the scale, 1/127 of the largest, would be a denormal and too coarse. So
 * nothing is sent. */
FED_TEST(int8_sends_no_denormals) {
    static const float x[N] = {1e-37f, -1e-38f, 1e-39f, 1e-40f, 1e-41f};
    sent s;
    send(FEDCODEC_FORM_INT8, x, &s);
    assert_int_equal(s.chosen.count, 0);
    assert_int_equal(fedcodec_values_len(FEDCODEC_FORM_INT8, 0), 0);
}

FED_TEST(a_load_can_begin_anywhere) {
    static const float x[N] = {1.0f, -2.0f, 127.0f, 4.0f, -8.0f};
    for (fedcodec_form form = 0; form < FEDCODEC_FORM_COUNT; form++) {
        sent s;
        float value[2];
        send(form, x, &s);
        fedcodec_values_load(form, s.bytes, 3, 2, value);
        assert_true(value[0] == 4.0f && value[1] == -8.0f);
    }
}

static void refuse(fedcodec_form form, const char *bytes, size_t count) {
    float max = -1.0f;
    assert_fed_status(fedcodec_values_check(form, (const uint8_t *)bytes, count, &max),
                      FED_EFORMAT);
    assert_true(max == -1.0f);
}

FED_TEST(what_no_put_writes_is_refused) {
    refuse(FEDCODEC_FORM_BFLOAT16, "\x80\x3f\x00\x00", 2); /* 0 */
    refuse(FEDCODEC_FORM_BFLOAT16, "\x80\x3f\x00\x80", 2); /* -0 */
    refuse(FEDCODEC_FORM_BFLOAT16, "\x80\xff\x80\x3f", 2); /* -infinity */
    refuse(FEDCODEC_FORM_BFLOAT16, "\xc0\x7f", 1);         /* NaN */
#define ONE "\x00\x00\x80\x3f"
    refuse(FEDCODEC_FORM_INT8, ONE "\x7f\x00", 2);            /* a level of 0 */
    refuse(FEDCODEC_FORM_INT8, ONE "\x7f\x80", 2);            /* -128 */
    refuse(FEDCODEC_FORM_INT8, ONE "\x7e\x82", 2);            /* no value has level 127 */
    refuse(FEDCODEC_FORM_INT8, "\x00\x00\x00\x00\x7f", 1);    /* a scale of 0 */
    refuse(FEDCODEC_FORM_INT8, "\x00\x00\x80\xbf\x7f", 1);    /* a negative scale */
    refuse(FEDCODEC_FORM_INT8, "\x00\x00\x80\x7f\x7f", 1);    /* an infinite scale */
    refuse(FEDCODEC_FORM_INT8, "\xff\xff\x7f\x00\x7f", 1);    /* a denormal scale */
    refuse(FEDCODEC_FORM_FLOAT32, ONE "\x00\x00\x00\x00", 2); /* 0 */
}

FED_TEST(the_largest_values_stay_finite) {
    static const float x[N] = {FLT_MAX, -FLT_MAX, 1e38f, -2e38f, 3e38f};
    for (fedcodec_form form = 0; form < FEDCODEC_FORM_COUNT; form++) {
        sent s;
        float max;
        send(form, x, &s);
        assert_fed_ok(fedcodec_values_check(form, s.bytes, N, &max));
        assert_true(isfinite(max) && max > 3.3e38f);
    }
}
