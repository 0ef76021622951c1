/* Bursts: inceptionn messages packed for a network card (docs/codec-formats.md) and unpacked, and
 * bytes that are no message. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/registry.h"
#include "fed/rng.h"
#include "fedcodec/bursts.h"
#include "fedcodec/codec.h"

enum { N = 100, CAP = 5 * N };

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

FED_TEST(every_length_comes_back_to_the_byte) {
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

FED_TEST(a_burst_is_its_tags_then_its_payload) {
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

FED_TEST(too_small_a_buffer_is_refused) {
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

FED_TEST(what_is_no_message_is_not_packed) {
    uint8_t message[CAP], bursts[CAP + 2];
    size_t len = make_message(N, 3, message), packed = 0;
    assert_fed_status(fedcodec_bursts_pack(message, len - 1, N, bursts, sizeof bursts, &packed),
                      FED_EFORMAT);
    assert_fed_status(fedcodec_bursts_pack(message, len, N - 8, bursts, sizeof bursts, &packed),
                      FED_EFORMAT);
}

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

FED_TEST(bursts_cut_anywhere_or_too_long_are_refused) {
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

FED_TEST(a_flipped_bit_is_refused_or_another_message) {
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

FED_TEST(a_long_message_needs_no_more_than_its_size) {
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

enum { FEW = 70, FEW_CAP = FEW / 8 * 34 + 34, GUARD = 0xa5 };

static const fedcodec_burst_coder *on_unit(size_t k) {
    const fedcodec_unit *unit = fedcodec_unit_at(k);
    return unit == NULL ? NULL : unit->codecs[FEDCODEC_INDEX_inceptionn]->bursts;
}

static float from_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Fill in bits of NaN, infinity and 0, and bits around each power of two that may separate classes,
 * all with both signs. */
static size_t special_bits(uint32_t *bits) {
    static const uint32_t others[] = {0,          1,          0x7fffff,   0x800000,   0x7f7fffff,
                                      0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff, 0x55555555};
    size_t n = 0;
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        bits[n++] = others[k];
    }
    for (uint32_t exponent = 127 - 18; exponent <= 127 + 2; exponent++) {
        for (uint32_t k = 0; k < 4; k++) {
            /* just below the power, the power, just above it, and half way to the next */
            bits[n++] = (exponent << 23) + (k < 3 ? k - 1 : 1u << 22);
        }
    }
    for (size_t k = 0; k < n; k++) {
        bits[n + k] = bits[k] | 1u << 31;
    }
    return 2 * n;
}

/* Encode by the table in docs/codec-formats.md, in doubles. Returns the bursts' length. */
static size_t slow_encode(int e, const uint32_t *bits, size_t n, uint8_t *dst, uint32_t *decoded) {
    uint8_t *out = dst, *tags = NULL;
    for (size_t i = 0; i < n; i++) {
        const double a = fabs((double)from_bits(bits[i]));
        const uint32_t sign = bits[i] >> 31;
        if (i % 8 == 0) {
            tags = out;
            tags[0] = tags[1] = 0;
            out += 2;
        }
        uint32_t tag = 3, payload = bits[i];
        decoded[i] = bits[i];
        if (a < 1.0) { /* false for NaN */
            tag = a < ldexp(1.0, -e) ? 0 : a < ldexp(1.0, -(e / 2)) ? 1 : 2;
            const double unit = tag == 1 ? 0x1p7 : 0x1p15;
            const double kept = tag == 0 ? 0.0 : floor(a * unit);
            const float value = (float)(sign == 1 && kept > 0.0 ? -kept / unit : kept / unit);
            payload = (uint32_t)kept | sign << (tag == 0 ? 0 : 8 * tag - 1);
            memcpy(&decoded[i], &value, sizeof value);
        }
        tags[i % 8 / 4] |= (uint8_t)(tag << 2 * (i % 4));
        for (size_t k = 0; k < (tag == 3 ? 4 : tag); k++) {
            *out++ = (uint8_t)(payload >> 8 * k);
        }
    }
    return (size_t)(out - dst);
}

/* Allocate memory without spare bytes, so that a sanitizer sees an access past its end. */
static void *allocate(size_t bytes) {
    void *memory = malloc(bytes + (bytes == 0));
    assert_non_null(memory);
    return memory;
}

/* Encode and decode `shift` bytes past an aligned address, in memory of exactly the needed size,
 * and round. */
static void assert_coded_well(const fedcodec_burst_coder *coder, int e, const uint32_t *bits,
                              size_t n, size_t shift) {
    uint8_t *expected = allocate(fedcodec_bursts_bound(n));
    uint32_t *decoded = allocate(4 * n), *y = allocate(4 * n);
    const size_t expected_len = slow_encode(e, bits, n, expected, decoded);
    uint8_t *x = allocate(4 * n + shift), *dst = allocate(expected_len + shift);
    size_t len = 77;
    memcpy(x + shift, bits, 4 * n);
    assert_int_equal(coder->encode(e, x + shift, n, dst + shift, expected_len, &len), n);
    assert_int_equal(len, expected_len);
    assert_memory_equal(dst + shift, expected, len);
    memset(x, 0x77, 4 * n + shift);
    assert_fed_ok(coder->decode(dst + shift, len, x + shift, n));
    assert_memory_equal(x + shift, decoded, 4 * n);
    coder->round(e, (const float *)bits, (float *)y, n);
    assert_memory_equal(y, decoded, 4 * n);
    coder->round(e, (const float *)y, (float *)y, n);
    assert_memory_equal(y, decoded, 4 * n);
    free(expected);
    free(decoded);
    free(y);
    free(x);
    free(dst);
}

FED_TEST(every_class_and_boundary_is_coded_as_documented) {
    uint32_t bits[256];
    const size_t n = special_bits(bits);
    assert_true(n <= 256);
    for (size_t u = 0; on_unit(u) != NULL; u++) {
        for (int e = 1; e <= 15; e++) {
            /* the shift also moves values to another place in a burst */
            for (size_t shift = 0; shift < 8; shift++) {
                assert_coded_well(on_unit(u), e, bits + shift, n - shift, shift);
            }
        }
    }
}

/* Random bits if kind is 4 or more, else a random value of one of four scales. */
static uint32_t random_bits(fed_rng *rng, unsigned kind) {
    static const float scales[] = {4.0f, 0.25f, 0x1p-6f, 0x1p-10f};
    float value = (fed_rng_float(rng) - 0.5f) * scales[kind % 4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return kind >= 4 ? fed_rng_u32(rng) : bits;
}

FED_TEST(random_bits_of_every_length_are_coded_as_documented) {
    fed_rng rng;
    fed_rng_init(&rng, 8, 1, 1);
    for (int e = 1; e <= 15; e++) {
        for (size_t n = 0; n <= FEW; n++) {
            uint32_t bits[FEW];
            const unsigned kind = fed_rng_below(&rng, 6); /* 5: each value of a random kind */
            for (size_t i = 0; i < n; i++) {
                bits[i] = random_bits(&rng, kind == 5 ? fed_rng_below(&rng, 5) : kind);
            }
            for (size_t u = 0; on_unit(u) != NULL; u++) {
                assert_coded_well(on_unit(u), e, bits, n, n % 5);
            }
        }
    }
}

FED_TEST(too_little_room_takes_whole_bursts) {
    fed_rng rng;
    fed_rng_init(&rng, 8, 1, 2);
    for (size_t n = 0; n <= FEW; n += n < 20 ? 1 : 10) {
        uint32_t bits[FEW], decoded[FEW];
        uint8_t all[FEW_CAP], dst[FEW_CAP + 64];
        for (size_t i = 0; i < n; i++) {
            bits[i] = random_bits(&rng, fed_rng_below(&rng, 5));
        }
        const size_t most = slow_encode(9, bits, n, all, decoded);
        for (size_t u = 0; on_unit(u) != NULL; u++) {
            for (size_t cap = 0; cap <= most; cap++) {
                size_t len = 0;
                memset(dst, GUARD, sizeof dst);
                size_t taken = on_unit(u)->encode(9, bits, n, dst, cap, &len);
                assert_true(taken == n || (taken < n && taken % 8 == 0));
                assert_int_equal(slow_encode(9, bits, taken, all, decoded), len);
                assert_memory_equal(dst, all, len);
                for (size_t k = cap; k < sizeof dst; k++) {
                    assert_int_equal(dst[k], GUARD);
                }
                size_t more = taken + 8 < n ? taken + 8 : n;
                assert_true(taken == n || slow_encode(9, bits, more, all, decoded) > cap);
            }
        }
    }
}

static fed_status decode(size_t unit, const uint8_t *src, size_t len, size_t n) {
    uint8_t *copy = allocate(len), *y = allocate(4 * n + 1);
    memcpy(copy, src, len);
    y[4 * n] = GUARD;
    fed_status status = on_unit(unit)->decode(copy, len, y, n);
    assert_int_equal(y[4 * n], GUARD);
    free(copy);
    free(y);
    return status;
}

FED_TEST(bursts_of_another_length_are_not_decoded) {
    fed_rng rng;
    fed_rng_init(&rng, 8, 1, 3);
    for (size_t n = 0; n <= FEW; n++) {
        uint32_t bits[FEW], decoded[FEW];
        uint8_t all[FEW_CAP + 40] = {0};
        const unsigned kinds = 1 + fed_rng_below(&rng, 5);
        for (size_t i = 0; i < n; i++) {
            bits[i] = random_bits(&rng, fed_rng_below(&rng, kinds));
        }
        const size_t len = slow_encode(10, bits, n, all, decoded);
        for (size_t u = 0; on_unit(u) != NULL; u++) {
            assert_fed_ok(decode(u, all, len, n));
            for (size_t other = 0; other <= len + 40; other++) {
                if (other != len) {
                    assert_fed_status(decode(u, all, other, n), FED_EFORMAT);
                }
            }
        }
    }
    const size_t many = SIZE_MAX / 4;
    for (size_t u = 0; on_unit(u) != NULL; u++) {
        uint8_t y[32];
        assert_fed_status(on_unit(u)->decode((const uint8_t *)"\1\0", 2, y, many), FED_EFORMAT);
    }
}

FED_TEST(tags_past_the_last_value_are_not_decoded) {
    for (size_t n = 1; n < 8; n++) {
        for (unsigned k = 0; k < 8; k++) {
            for (unsigned tag = 1; tag < 4; tag++) {
                const size_t len = 2 + (tag == 3 ? 4 : tag);
                uint8_t burst[8] = {0, 0, 0, 0, 0x80, 0x3f};
                burst[k / 4] = (uint8_t)(tag << 2 * (k % 4));
                for (size_t u = 0; on_unit(u) != NULL; u++) {
                    assert_fed_status(decode(u, burst, len, n), k < n ? FED_OK : FED_EFORMAT);
                }
            }
        }
    }
}

/* A network card may get bytes that no encoder has made. */
FED_TEST(any_payload_is_decoded) {
    static const uint8_t burst[] = {0xa5, 0xfa, 0x80, 0x00, 0x00, 0x80, 0x00, 0x00, 0x01, 0x80,
                                    0x40, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x3f};
    static const uint32_t wanted[8] = {0, 0, 0, 0, 0xb8000000, 0x3b000000, 0x80000000, 0x3f000000};
    for (size_t u = 0; on_unit(u) != NULL; u++) {
        uint32_t y[8];
        assert_fed_ok(on_unit(u)->decode(burst, sizeof burst, y, 8));
        assert_memory_equal(y, wanted, sizeof y);
    }
}

FED_TEST(finite_values_are_sent_as_the_codec_sends_them) {
    for (int e = 1; e <= 15; e++) {
        char spec[FEDCODEC_SPEC];
        fedcodec codec;
        fed_rng rng;
        float x[N], residual[N], y[N], rounded[N];
        uint8_t message[CAP], packed[CAP + 2], direct[CAP + 2];
        size_t len = 0, packed_len = 0, direct_len = 0;
        fed_rng_init(&rng, 8, 1, (uint32_t)(100 + e));
        for (size_t i = 0; i < N; i++) {
            uint32_t bits = random_bits(&rng, fed_rng_below(&rng, 5));
            x[i] = from_bits(bits);
            x[i] = isfinite(x[i]) ? x[i] : -0x1p-12f;
        }
        snprintf(spec, sizeof spec, "inceptionn:e=%d", e);
        assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
        memcpy(residual, x, sizeof x);
        assert_fed_ok(
            fedcodec_encode(&codec, residual, NULL, N, NULL, message, sizeof message, &len));
        assert_fed_ok(fedcodec_bursts_pack(message, len, N, packed, sizeof packed, &packed_len));
        assert_int_equal(fedcodec_bursts_encode(e, x, N, direct, sizeof direct, &direct_len), N);
        assert_int_equal(direct_len, packed_len);
        assert_memory_equal(direct, packed, packed_len);
        assert_fed_ok(fedcodec_bursts_decode(direct, direct_len, y, N));
        fedcodec_bursts_round(e, x, rounded, N);
        assert_memory_equal(y, rounded, sizeof y);
        assert_fed_ok(fedcodec_decode(codec.vtable, message, len, x, N));
        for (size_t i = 0; i < N; i++) { /* equal except for the sign of zeros */
            assert_true(x[i] == y[i] && (y[i] != 0.0f || !signbit(y[i])));
        }
    }
}
