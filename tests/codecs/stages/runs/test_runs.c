/* The second stage "runs": exact, one form for each message, short if 3lc sends long runs of
 * zeros. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/stage.h"
#include "fed/rng.h"

enum { CAP = 1024 };

static const fedcodec_stage *runs(void) {
    const fedcodec_stage *stage = fedcodec_stage_by_id(1);
    assert_non_null(stage);
    assert_string_equal(stage->name, "runs");
    return stage;
}

static void assert_packs(const void *plain, size_t len, const void *packed, size_t packed_len) {
    uint8_t dst[CAP], back[CAP];
    assert_int_equal(runs()->pack(plain, len, dst, sizeof dst), packed_len);
    assert_memory_equal(dst, packed, packed_len);
    assert_fed_ok(runs()->unpack(dst, packed_len, back, len));
    assert_memory_equal(back, plain, len);
}

FED_TEST(runs_of_255_become_a_count) {
    assert_packs("abc", 3, "abc", 3);
    assert_packs("\xff", 1, "\xff\x00", 2);
    assert_packs("a\xff\xff\xff\xff", 5, "a\xff\x03", 3);
    assert_packs("\xff\xff\x79\xff\xff\xff", 6, "\xff\x01\x79\xff\x02", 5);
    uint8_t many[300];
    memset(many, 0xff, sizeof many);
    assert_packs(many, sizeof many, "\xff\xab\x02", 3);
}

FED_TEST(random_bytes_come_back) {
    fed_rng rng;
    fed_rng_init(&rng, 8, 0, 0);
    for (int round = 0; round < 5000; round++) {
        uint8_t plain[200], packed[400], back[200];
        size_t len = 1 + fed_rng_below(&rng, sizeof plain);
        for (size_t i = 0; i < len; i++) {
            plain[i] = fed_rng_below(&rng, 3) ? 0xff : (uint8_t)fed_rng_below(&rng, 256);
        }
        size_t made = runs()->pack(plain, len, packed, sizeof packed);
        assert_true(made > 0);
        assert_fed_ok(runs()->unpack(packed, made, back, len));
        assert_memory_equal(back, plain, len);
        assert_int_equal(runs()->pack(plain, len, packed, made), made);
        assert_int_equal(runs()->pack(plain, len, packed, made - 1), 0);
    }
}

/* Unpack in memory without spare bytes, so that a sanitizer sees an access past its end. */
static fed_status unpack(const void *packed, size_t len, size_t plain_len) {
    uint8_t *copy = malloc(len + (len == 0)), *dst = malloc(plain_len + (plain_len == 0));
    assert_true(copy != NULL && dst != NULL);
    memcpy(copy, packed, len);
    fed_status status = runs()->unpack(copy, len, dst, plain_len);
    free(copy);
    free(dst);
    return status;
}

FED_TEST(another_form_of_the_same_bytes_is_refused) {
    assert_fed_ok(unpack("\xff\x01", 2, 2));
    assert_fed_status(unpack("\xff\x00\xff\x00", 4, 2), FED_EFORMAT); /* two runs instead of one */
    assert_fed_status(unpack("\xff\x81\x00", 3, 2), FED_EFORMAT);     /* a varint too long */
}

FED_TEST(a_wrong_length_is_refused) {
    assert_fed_status(unpack("abc", 3, 2), FED_EFORMAT);
    assert_fed_status(unpack("abc", 3, 4), FED_EFORMAT);
    assert_fed_status(unpack("a\xff\x05", 3, 6), FED_EFORMAT);
    assert_fed_status(unpack("a\xff\x05", 3, 8), FED_EFORMAT);
    assert_fed_status(unpack("\xff", 1, 1), FED_EFORMAT);
    assert_fed_status(unpack("", 0, 1), FED_EFORMAT);
    assert_fed_status(unpack("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 100), FED_EFORMAT);
}

FED_TEST(random_packed_bytes_are_refused_or_the_packed_form) {
    fed_rng rng;
    fed_rng_init(&rng, 9, 0, 0);
    for (int round = 0; round < 20000; round++) {
        uint8_t packed[8], plain[16], again[40];
        size_t len = fed_rng_below(&rng, sizeof packed + 1);
        size_t plain_len = 1 + fed_rng_below(&rng, sizeof plain);
        for (size_t i = 0; i < len; i++) {
            packed[i] = fed_rng_below(&rng, 2) ? 0xff : (uint8_t)fed_rng_below(&rng, 6);
        }
        if (unpack(packed, len, plain_len) == FED_OK) {
            assert_fed_ok(runs()->unpack(packed, len, plain, plain_len));
            assert_int_equal(runs()->pack(plain, plain_len, again, sizeof again), len);
            assert_memory_equal(again, packed, len);
        }
    }
}

/* Gradients with a Laplace distribution, encoded with error feedback. */
FED_TEST(at_3lcs_floor_a_quarter_of_the_bytes_is_plenty) {
    enum { N = 40000, ROUNDS = 60 };
    static float residual[N], x[N];
    static uint8_t message[N], packed[N];
    fedcodec codec;
    fed_rng rng;
    size_t plain_bytes = 0, packed_bytes = 0;
    assert_fed_ok(fedcodec_parse("3lc:s=1.75", &codec, NULL));
    fed_rng_init(&rng, 10, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < N; i++) {
            float u = fed_rng_float(&rng) - 0.5f;
            x[i] = copysignf(logf(1.0f - 2.0f * fabsf(u) + 1e-7f), u);
        }
        size_t len = 0;
        assert_fed_ok(fedcodec_encode(&codec, residual, x, N, NULL, message, sizeof message, &len));
        if (8.0 * (double)len / N < 0.12) {
            plain_bytes += len;
            packed_bytes += runs()->pack(message, len, packed, sizeof packed);
        }
    }
    assert_true(plain_bytes > 0);
    assert_true(4 * packed_bytes <= plain_bytes);
}
