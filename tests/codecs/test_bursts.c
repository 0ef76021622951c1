/* Bursts: the same message in a network card's form, there and back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed/rng.h"
#include "fedcodec/bursts.h"
#include "fedcodec/codec.h"

enum { N = 100, CAP = 5 * N };

/* A message with values of all classes; its length is returned. */
static size_t make_message(size_t n, uint32_t stream, uint8_t *dst) {
    float residual[N];
    fedcodec codec;
    size_t len = 0;
    fed_rng rng;
    fed_rng_init(&rng, 5, stream, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        static const float scales[] = {4.0f, 1.0f, 0.05f, 1e-3f};
        residual[i] = (fed_rng_float(&rng) - 0.5f) * scales[fed_rng_below(&rng, 4)];
    }
    assert_fed_ok(fedcodec_parse("inceptionn:e=9", &codec, NULL));
    assert_fed_ok(fedcodec_encode(&codec, residual, NULL, n, NULL, dst, CAP, &len));
    return len;
}

static void every_length_comes_back_to_the_byte(void **state) {
    (void)state;
    for (size_t n = 0; n <= N; n++) {
        uint8_t message[CAP], bursts[CAP + 2], back[CAP];
        size_t len = make_message(n, 1, message), packed = 0, unpacked = 0;
        assert_fed_ok(fedcodec_bursts_pack(message, len, n, bursts, sizeof bursts, &packed));
        assert_true(packed <= fedcodec_bursts_bound(n));
        assert_int_equal(packed, len - (n + 3) / 4 + (n + 7) / 8 * 2);
        assert_fed_ok(fedcodec_bursts_unpack(bursts, packed, n, back, sizeof back, &unpacked));
        assert_int_equal(unpacked, len);
        assert_memory_equal(back, message, len);
    }
}

static void a_burst_is_its_tags_then_its_payload(void **state) {
    (void)state;
    float residual[9] = {1.0f, 0.5f, 0, 0, 0, 0, 0, -0.015625f, 0.5f};
    uint8_t message[64], bursts[64];
    size_t len = 0, packed = 0;
    fedcodec codec;
    assert_fed_ok(fedcodec_parse("inceptionn:e=10", &codec, NULL));
    assert_fed_ok(fedcodec_encode(&codec, residual, NULL, 9, NULL, message, sizeof message, &len));
    assert_fed_ok(fedcodec_bursts_pack(message, len, 9, bursts, sizeof bursts, &packed));
    assert_int_equal(packed, 2 + 4 + 2 + 1 + 2 + 2);
    assert_memory_equal(bursts, "\x0b\x40\x00\x00\x80\x3f\x00\x40\x82\x02\x00\x00\x40", packed);
}

static void too_small_a_buffer_is_refused(void **state) {
    (void)state;
    uint8_t message[CAP], bursts[CAP + 2], back[CAP];
    size_t len = make_message(N, 2, message), packed = 0, unpacked = 77;
    assert_fed_ok(fedcodec_bursts_pack(message, len, N, bursts, sizeof bursts, &packed));
    size_t kept = packed;
    assert_fed_status(fedcodec_bursts_pack(message, len, N, bursts, packed - 1, &kept), FED_ENOSPC);
    assert_int_equal(kept, packed);
    assert_fed_status(fedcodec_bursts_unpack(bursts, packed, N, back, len - 1, &unpacked),
                      FED_ENOSPC);
    assert_int_equal(unpacked, 77);
}

static void what_is_no_message_is_not_packed(void **state) {
    (void)state;
    uint8_t message[CAP], bursts[CAP + 2];
    size_t len = make_message(N, 3, message), packed = 0;
    assert_fed_status(fedcodec_bursts_pack(message, len - 1, N, bursts, sizeof bursts, &packed),
                      FED_EFORMAT);
    assert_fed_status(fedcodec_bursts_pack(message, len, N - 8, bursts, sizeof bursts, &packed),
                      FED_EFORMAT);
}

/* Unpack from memory of just that size. */
static fed_status unpack(const uint8_t *src, size_t len, size_t n, uint8_t *back,
                         size_t *back_len) {
    uint8_t *copy = malloc(len + (len == 0));
    uint8_t *dst = malloc(CAP);
    assert_true(copy != NULL && dst != NULL);
    memcpy(copy, src, len);
    fed_status status = fedcodec_bursts_unpack(copy, len, n, dst, CAP, back_len);
    memcpy(back, dst, status == FED_OK ? *back_len : 0);
    free(copy);
    free(dst);
    return status;
}

static void bursts_cut_anywhere_or_too_long_are_refused(void **state) {
    (void)state;
    for (size_t n = 1; n <= 20; n++) {
        uint8_t message[CAP], bursts[CAP + 2], back[CAP];
        size_t len = make_message(n, 4, message), packed = 0;
        assert_fed_ok(fedcodec_bursts_pack(message, len, n, bursts, sizeof bursts, &packed));
        for (size_t cut = 0; cut < packed; cut++) {
            assert_fed_status(unpack(bursts, cut, n, back, &len), FED_EFORMAT);
        }
        bursts[packed] = 0;
        assert_fed_status(unpack(bursts, packed + 1, n, back, &len), FED_EFORMAT);
    }
}

/* Refused, or another message that packs to just these bytes. */
static void a_flipped_bit_is_refused_or_another_message(void **state) {
    (void)state;
    for (size_t n = 1; n <= 20; n++) {
        uint8_t message[CAP], bursts[CAP + 2], back[CAP], again[CAP + 2];
        size_t len = make_message(n, 5, message), packed = 0, back_len = 0, again_len = 0;
        assert_fed_ok(fedcodec_bursts_pack(message, len, n, bursts, sizeof bursts, &packed));
        for (size_t bit = 0; bit < 8 * packed; bit++) {
            bursts[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (unpack(bursts, packed, n, back, &back_len) == FED_OK) {
                assert_fed_ok(
                    fedcodec_bursts_pack(back, back_len, n, again, sizeof again, &again_len));
                assert_int_equal(again_len, packed);
                assert_memory_equal(again, bursts, packed);
            }
            bursts[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* Dense at first, then nothing: to memory of just the size that is needed, and back. */
static void a_long_message_needs_no_more_than_its_size(void **state) {
    (void)state;
    enum { LONG = 5000 };
    for (size_t dense = 0; dense <= LONG; dense += 625) {
        static float x[LONG];
        static uint8_t message[5 * LONG];
        fedcodec codec;
        size_t len = 0, packed_len = 0, back_len = 0;
        for (size_t i = 0; i < LONG; i++) {
            static const float kinds[] = {1.5f, 0.5f, 0x1p-6f, 0.0f, -2.0f};
            x[i] = i < dense ? kinds[i % 5] : 0.0f;
        }
        assert_fed_ok(fedcodec_parse("inceptionn", &codec, NULL));
        assert_fed_ok(fedcodec_encode(&codec, NULL, x, LONG, NULL, message, sizeof message, &len));
        size_t size = len + LONG / 8 * 2 - LONG / 4;
        uint8_t *packed = malloc(size), *back = malloc(len);
        assert_true(packed != NULL && back != NULL);
        assert_fed_ok(fedcodec_bursts_pack(message, len, LONG, packed, size, &packed_len));
        assert_int_equal(packed_len, size);
        assert_fed_ok(fedcodec_bursts_unpack(packed, size, LONG, back, len, &back_len));
        assert_int_equal(back_len, len);
        assert_memory_equal(back, message, len);
        free(packed);
        free(back);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_comes_back_to_the_byte),
        cmocka_unit_test(a_burst_is_its_tags_then_its_payload),
        cmocka_unit_test(too_small_a_buffer_is_refused),
        cmocka_unit_test(what_is_no_message_is_not_packed),
        cmocka_unit_test(bursts_cut_anywhere_or_too_long_are_refused),
        cmocka_unit_test(a_flipped_bit_is_refused_or_another_message),
        cmocka_unit_test(a_long_message_needs_no_more_than_its_size),
    };
    return cmocka_run_group_tests_name("bursts", tests, NULL, NULL);
}
