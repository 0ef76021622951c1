/* randk: each tensor sends other places, and all values are sent equally often. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedcodec/codec.h"

enum { N = 103, CAP = 1024 };

static void send(const char *spec, float *residual, size_t n, float *y) {
    uint8_t message[CAP];
    fedcodec codec;
    size_t len = 0;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    assert_fed_ok(fedcodec_encode(&codec, residual, NULL, n, NULL, message, sizeof message, &len));
    assert_fed_ok(fedcodec_decode(codec.vtable, message, len, y, n));
}

static void fill(fed_rng *rng, float *x) {
    for (size_t i = 0; i < N; i++) {
        x[i] = fed_rng_float(rng) + 1.0f;
    }
}

static size_t count_sent(const float *y, size_t begin, size_t end) {
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        count += y[i] != 0.0f;
    }
    return count;
}

FED_TEST(one_value_of_each_stretch_is_sent) {
    enum { K = 11 }; /* 103 values: stretches of 9 and 10 */
    fed_rng rng;
    fed_rng_init(&rng, 1, 0, 0);
    for (int round = 0; round < 200; round++) {
        float x[N], y[N];
        fill(&rng, x);
        send("randk:p=0.1", x, N, y);
        for (size_t k = 0; k < K; k++) {
            assert_int_equal(count_sent(y, k * N / K, (k + 1) * N / K), 1);
        }
    }
}

/* In 20,000 tensors each value of a stretch of ten is sent about 2,000 times, and each value of
 * a stretch of nine about 2,222 times. The standard deviation is below 45. */
FED_TEST(each_value_is_sent_as_often_as_others) {
    static unsigned sent[N];
    fed_rng rng;
    fed_rng_init(&rng, 2, 0, 0);
    for (int round = 0; round < 20000; round++) {
        float x[N], y[N];
        fill(&rng, x);
        send("randk:p=0.1", x, N, y);
        for (size_t i = 0; i < N; i++) {
            sent[i] += y[i] != 0.0f;
        }
    }
    for (size_t i = 0; i < N; i++) {
        assert_in_range(sent[i], 2000 - 220, 2222 + 220);
    }
}

FED_TEST(the_seed_and_the_values_choose_the_places) {
    float x[3][N], y[3][N];
    for (size_t k = 0; k < 3; k++) {
        fed_rng rng;
        fed_rng_init(&rng, k < 2 ? 3 : 4, 0, 0);
        fill(&rng, x[k]);
        send(k == 1 ? "randk:p=0.5,seed=2" : "randk:p=0.5", x[k], N, y[k]);
    }
    size_t other_seed = 0, other_values = 0;
    for (size_t i = 0; i < N; i++) {
        other_seed += (y[0][i] != 0.0f) != (y[1][i] != 0.0f);
        other_values += (y[0][i] != 0.0f) != (y[2][i] != 0.0f);
    }
    assert_true(other_seed > 10 && other_values > 10);
}

FED_TEST(the_only_value_is_always_found) {
    for (size_t i = 0; i < N; i++) {
        float x[N] = {0}, y[N];
        x[i] = -0.5f;
        send("randk:p=0.01", x, N, y);
        assert_true(y[i] == -0.5f && x[i] == 0.0f);
    }
}
