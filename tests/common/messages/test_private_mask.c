/* Masks: fields of w bits, the same wherever the sum begins, and gone once they are taken off. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/private_terms.h"
#include "fed/sealed.h"

enum { N = 3 * FED_MASK_FIELDS + 64, BYTES = N * 4 + 8 };

static const uint8_t seed[FED_SEED] = {1, 2, 3};

/* A slow reader of the definition: bit by bit from the stream. */
static uint32_t field_of(const uint8_t *stream, unsigned width, size_t i) {
    uint32_t v = 0;
    for (unsigned b = 0; b < width; b++) {
        const size_t bit = i * width + b;
        v |= (uint32_t)(stream[bit / 8] >> bit % 8 & 1) << b;
    }
    return v;
}

FED_TEST(a_mask_is_the_stream_as_fields) {
    for (unsigned width = 1; width <= 32; width++) {
        uint8_t key[FED_SEALED_KEY], stream[BYTES] = {0};
        uint32_t y[N] = {0};
        assert_fed_ok(fed_hkdf(seed, sizeof seed, "mask", 4, key, sizeof key));
        assert_fed_ok(fed_sealed_crypt(key, 0, stream, sizeof stream));
        assert_fed_ok(fed_private_mask(seed, width, 0, y, N));
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(y[i], field_of(stream, width, i));
        }
    }
}

FED_TEST(parts_of_a_mask_are_the_whole) {
    uint32_t whole[N] = {0}, parts[N] = {0};
    assert_fed_ok(fed_private_mask(seed, 14, 0, whole, N));
    for (size_t at = 0; at < N; at += FED_MASK_FIELDS) {
        const size_t n = N - at < FED_MASK_FIELDS ? N - at : FED_MASK_FIELDS;
        assert_fed_ok(fed_private_mask(seed, 14, at, parts + at, n));
    }
    assert_memory_equal(whole, parts, sizeof whole);
}

FED_TEST(a_masked_update_less_its_mask_is_the_update) {
    for (unsigned width = 1; width <= 32; width++) {
        uint32_t plain[N], got[N], mask[N] = {0};
        uint8_t packed[BYTES] = {0};
        const uint32_t most = (uint32_t)(((uint64_t)1 << width) - 1);
        for (size_t i = 0; i < N; i++) {
            plain[i] = (uint32_t)(i * 2654435761u) & most;
        }
        fed_private_pack(plain, width, 0, packed, N);
        fed_private_unpack(packed, width, 0, got, N);
        assert_memory_equal(got, plain, sizeof got);
        assert_fed_ok(fed_private_mask_packed(seed, width, packed, N));
        assert_fed_ok(fed_private_mask(seed, width, 0, mask, N));
        fed_private_unpack(packed, width, 0, got, N);
        size_t same = 0;
        for (size_t i = 0; i < N; i++) {
            same += got[i] == plain[i];
            assert_int_equal((got[i] - mask[i]) & most, plain[i]);
        }
        assert_true(width < 8 || same < N / 16);
    }
}

FED_TEST(fields_are_read_from_the_middle) {
    uint32_t plain[N], got[64];
    uint8_t packed[BYTES] = {0};
    for (size_t i = 0; i < N; i++) {
        plain[i] = (uint32_t)i;
    }
    fed_private_pack(plain, 19, 0, packed, N);
    fed_private_unpack(packed, 19, 200, got, 64);
    assert_memory_equal(got, plain + 200, sizeof got);
    assert_int_equal(fed_private_packed(19, 64), 152);
    assert_int_equal(fed_private_packed(3, 1), 1);
}
