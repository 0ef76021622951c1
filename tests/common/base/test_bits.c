/* Bit readers and writers: known bytes, long runs, and reads at and past the end of the data. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/bits.h"
#include "fed/rng.h"

FED_TEST(test_bits_go_highest_first_and_the_end_is_padded_with_ones) {
    uint8_t bytes[4];
    fed_bit_writer w;
    fed_bit_writer_init(&w, bytes, sizeof bytes);
    fed_put_bits(&w, 0x5, 3); /* 101 */
    fed_put_unary(&w, 3);     /* 1110 */
    fed_put_bits(&w, 0, 0);
    fed_put_bits(&w, 0xfff1, 4); /* 0001: only the low bits count */
    size_t len = 0;
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    assert_int_equal(len, 2);
    assert_int_equal(bytes[0], 0xbc); /* 1011 1100 */
    assert_int_equal(bytes[1], 0x3f); /* 001 + 11111 */
}

FED_TEST(test_an_empty_stream_has_no_bytes) {
    fed_bit_writer w;
    fed_bit_writer_init(&w, NULL, 0);
    size_t len = 9;
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    assert_int_equal(len, 0);
    fed_bit_reader r;
    fed_bit_reader_init(&r, NULL, 0);
    assert_fed_ok(fed_bit_reader_end(&r));
}

/* Random runs and words from a seed are written, or read and checked, by the same calls. */
enum { FIELDS = 2000 };

static uint64_t run_length(fed_rng *rng) {
    uint32_t kind = fed_rng_below(rng, 20);
    return kind == 0 ? fed_rng_below(rng, 3000) : fed_rng_below(rng, kind < 4 ? 80 : 6);
}

static size_t write_fields(uint64_t seed, uint8_t *dst, size_t cap) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 0, 0);
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, cap);
    for (int i = 0; i < FIELDS; i++) {
        fed_put_unary(&w, run_length(&rng));
        unsigned count = fed_rng_below(&rng, 33);
        fed_put_bits(&w, fed_rng_u32(&rng), count);
    }
    size_t len = 0;
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    return len;
}

static void check_fields(uint64_t seed, const uint8_t *src, size_t len) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 0, 0);
    fed_bit_reader r;
    fed_bit_reader_init(&r, src, len);
    for (int i = 0; i < FIELDS; i++) {
        uint64_t run = run_length(&rng);
        assert_true(fed_get_unary(&r, run) == run);
        unsigned count = fed_rng_below(&rng, 33);
        uint32_t mask = (uint32_t)(((uint64_t)1 << count) - 1);
        assert_int_equal(fed_get_bits(&r, count), fed_rng_u32(&rng) & mask);
    }
    assert_fed_ok(fed_bit_reader_end(&r));
}

FED_TEST(test_random_fields_with_long_runs_round_trip) {
    enum { CAP = 1 << 17 };
    uint8_t *bytes = malloc(CAP);
    for (uint64_t seed = 0; seed < 20; seed++) {
        size_t len = write_fields(seed, bytes, CAP);
        /* Exactly as large as the data, so that a sanitizer sees a read past the end. */
        uint8_t *exact = malloc(len);
        memcpy(exact, bytes, len);
        check_fields(seed, exact, len);
        free(exact);
    }
    free(bytes);
}

FED_TEST(test_every_run_length_round_trips_at_every_bit_position) {
    for (unsigned shift = 0; shift < 8; shift++) {
        for (uint64_t run = 0; run < 200; run++) {
            uint8_t bytes[40];
            fed_bit_writer w;
            fed_bit_writer_init(&w, bytes, sizeof bytes);
            fed_put_bits(&w, 0x55, shift);
            fed_put_unary(&w, run);
            fed_put_bits(&w, 0xabc, 12);
            size_t len = 0;
            assert_fed_ok(fed_bit_writer_finish(&w, &len));
            assert_int_equal(len, (shift + run + 1 + 12 + 7) / 8);
            fed_bit_reader r;
            fed_bit_reader_init(&r, bytes, len);
            assert_int_equal(fed_get_bits(&r, shift), 0x55 & ((1u << shift) - 1));
            assert_true(fed_get_unary(&r, 200) == run);
            assert_int_equal(fed_get_bits(&r, 12), 0xabc);
            assert_fed_ok(fed_bit_reader_end(&r));
        }
    }
}

FED_TEST(test_a_run_longer_than_the_limit_is_refused) {
    static const uint64_t runs[] = {1, 7, 56, 57, 64, 300};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        uint8_t bytes[64];
        fed_bit_writer w;
        fed_bit_writer_init(&w, bytes, sizeof bytes);
        fed_put_unary(&w, runs[i]);
        fed_put_bits(&w, 0, 32);
        fed_put_bits(&w, 0, 32);
        size_t len = 0;
        assert_fed_ok(fed_bit_writer_finish(&w, &len));
        fed_bit_reader r;
        fed_bit_reader_init(&r, bytes, len);
        assert_true(fed_get_unary(&r, runs[i] - 1) == 0);
        assert_fed_status(r.status, FED_EFORMAT);
        fed_bit_reader_init(&r, bytes, len);
        assert_true(fed_get_unary(&r, runs[i]) == runs[i]);
        assert_fed_ok(r.status);
    }
}

FED_TEST(test_a_run_without_an_end_is_refused) {
    uint8_t bytes[32];
    memset(bytes, 0xff, sizeof bytes);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        fed_bit_reader r;
        fed_bit_reader_init(&r, bytes, len);
        assert_true(fed_get_unary(&r, UINT64_MAX) == 0);
        assert_fed_status(r.status, FED_EFORMAT);
    }
}

FED_TEST(test_reading_past_the_end_fails_for_good) {
    static const uint8_t bytes[12] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc};
    for (unsigned left = 0; left < 32; left++) {
        fed_bit_reader r;
        fed_bit_reader_init(&r, bytes, sizeof bytes);
        for (unsigned skip = 96 - left; skip > 0; skip--) {
            (void)fed_get_bits(&r, 1);
        }
        assert_fed_ok(r.status);
        assert_int_equal(fed_get_bits(&r, left + 1), 0);
        assert_fed_status(r.status, FED_EFORMAT);
        assert_int_equal(fed_get_bits(&r, 1), 0);
        assert_true(fed_get_unary(&r, 9) == 0);
        assert_fed_status(fed_bit_reader_end(&r), FED_EFORMAT);
    }
}

FED_TEST(test_the_end_must_be_under_eight_ones) {
    static const uint8_t good[] = {0xaf}, zero[] = {0xae}, spare[] = {0xaf, 0xff};
    fed_bit_reader r;
    fed_bit_reader_init(&r, good, sizeof good);
    assert_int_equal(fed_get_bits(&r, 4), 0xa);
    assert_fed_ok(fed_bit_reader_end(&r));
    fed_bit_reader_init(&r, zero, sizeof zero);
    assert_int_equal(fed_get_bits(&r, 4), 0xa);
    assert_fed_status(fed_bit_reader_end(&r), FED_EFORMAT);
    fed_bit_reader_init(&r, spare, sizeof spare);
    assert_int_equal(fed_get_bits(&r, 8), 0xaf);
    assert_fed_status(fed_bit_reader_end(&r), FED_EFORMAT);
}

FED_TEST(test_a_buffer_of_any_size_is_never_overrun) {
    uint8_t whole[64];
    fed_bit_writer w;
    fed_bit_writer_init(&w, whole, sizeof whole);
    for (uint32_t i = 0; i < 30; i++) {
        fed_put_unary(&w, i % 5);
        fed_put_bits(&w, i, 11);
    }
    size_t needed = 0;
    assert_fed_ok(fed_bit_writer_finish(&w, &needed));
    for (size_t cap = 0; cap <= needed; cap++) {
        uint8_t *bytes = malloc(cap + 1);
        bytes[cap] = 0xee;
        fed_bit_writer_init(&w, bytes, cap);
        for (uint32_t i = 0; i < 30; i++) {
            fed_put_unary(&w, i % 5);
            fed_put_bits(&w, i, 11);
        }
        size_t len = 12345;
        assert_fed_status(fed_bit_writer_finish(&w, &len), cap == needed ? FED_OK : FED_ENOSPC);
        assert_int_equal(len, cap == needed ? needed : 12345);
        assert_memory_equal(bytes, whole, w.len);
        assert_int_equal(bytes[cap], 0xee);
        free(bytes);
    }
}

FED_TEST(test_an_endless_run_into_a_full_buffer_returns_at_once) {
    uint8_t bytes[8];
    fed_bit_writer w;
    fed_bit_writer_init(&w, bytes, sizeof bytes);
    fed_put_unary(&w, UINT64_MAX);
    size_t len = 0;
    assert_fed_status(fed_bit_writer_finish(&w, &len), FED_ENOSPC);
}
