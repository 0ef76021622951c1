/* Helpers for tests of codecs. Messages lie in memory of exactly their length, so that sanitizers
 * find a read past the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_case.h"

#include "fed_test.h"

#include "fed/rng.h"

static fed_status decode(uint8_t id, const void *src, size_t len, float *y, size_t n) {
    uint8_t *exact = malloc(len + (len == 0));
    assert_non_null(exact);
    memcpy(exact, src, len);
    fed_status status = fedcodec_decode(fedcodec_by_id(id), exact, len, y, n);
    free(exact);
    return status;
}

size_t codec_case_encode(const char *spec, float *x, size_t n, uint8_t *dst, size_t cap) {
    fedcodec codec;
    size_t len = 0;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    assert_true(fedcodec_bound(&codec, n) <= cap);
    void *work = malloc(fedcodec_work_size(&codec, n) + 1);
    assert_non_null(work);
    assert_fed_ok(fedcodec_encode(&codec, x, NULL, n, work, dst, cap, &len));
    free(work);
    return len;
}

codec_case codec_case_of(const char *spec, const float *x, size_t n) {
    codec_case c = {.len = 0};
    fedcodec codec;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    assert_true(n <= CODEC_CASE_VALUES);
    memcpy(c.residual, x, n * sizeof *x);
    c.len = codec_case_encode(spec, c.residual, n, c.message, sizeof c.message);
    assert_fed_ok(decode(codec.vtable->id, c.message, c.len, c.decoded, n));
    return c;
}

void assert_codec_message(const char *spec, const float *x, const float *y, size_t n,
                          const void *bytes, size_t len) {
    codec_case c = codec_case_of(spec, x, n);
    assert_int_equal(c.len, len);
    assert_memory_equal(c.message, bytes, len);
    assert_memory_equal(c.decoded, y, n * sizeof *y);
}

void assert_codec_refuses(uint8_t id, const void *src, size_t len, size_t n) {
    float y[CODEC_CASE_VALUES];
    assert_fed_status(decode(id, src, len, y, n), FED_EFORMAT);
}

void assert_codec_accepts(uint8_t id, const void *src, size_t len, size_t n) {
    float y[CODEC_CASE_VALUES];
    assert_fed_ok(decode(id, src, len, y, n));
}

double codec_case_error(const char *spec) {
    enum { MANY = 1 << 16 };
    static float x[MANY], y[MANY];
    static uint8_t message[MANY];
    fedcodec codec;
    fed_rng rng;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    fed_rng_init(&rng, 1, 0, 0);
    for (size_t i = 0; i < MANY; i++) {
        float u = fed_rng_float(&rng) - 0.5f;
        x[i] = y[i] = u * u * u;
    }
    size_t len = codec_case_encode(spec, y, MANY, message, sizeof message);
    assert_fed_ok(fedcodec_decode(codec.vtable, message, len, y, MANY));
    double error = 0.0, whole = 0.0;
    for (size_t i = 0; i < MANY; i++) {
        const double apart = (double)(x[i] - y[i]);
        error += apart * apart;
        whole += (double)x[i] * (double)x[i];
    }
    return error / whole;
}
