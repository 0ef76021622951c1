/* The limits of rANS: scaled counts, the longest weight, and the padding after the weights. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/prim/rans.h"
#include "fed/bits.h"
#include "reference_positions.h"

enum { MANY = 40000, CAP = 1 << 17, STATE_LEN = 4 };

static uint8_t dst[CAP];

static size_t put(const uint32_t *number, size_t k, unsigned detail) {
    size_t len = 0;
    assert_fed_ok(fedcodec_rans_put_numbers(number, k, detail, dst, CAP, &len));
    return len;
}

static void assert_reads(const uint32_t *number, size_t k, unsigned detail, size_t len) {
    static fedcodec_rans_reader r;
    static uint32_t back[MANY];
    assert_fed_ok(fedcodec_rans_start(&r, dst, len, 0, detail));
    assert_true(fedcodec_rans_read_numbers(&r, back, k));
    assert_fed_ok(fedcodec_rans_end(&r));
    assert_memory_equal(back, number, k * sizeof *number);
}

static size_t put_lopsided(uint32_t *number, size_t zeros, unsigned detail) {
    memset(number, 0, zeros * sizeof *number);
    number[zeros] = 3;
    return put(number, zeros + 1, detail);
}

/* Returns the length in bits of the first weight, which follows the seven bits of the last
 * symbol. */
static unsigned first_length(size_t len) {
    fed_bit_reader r;
    fed_bit_reader_init(&r, dst, len);
    assert_int_equal(fed_get_bits(&r, 7), 3);
    return ((unsigned)fed_get_unary(&r, 64) + 1) / 2;
}

FED_TEST(counts_above_8191_are_scaled) {
    static uint32_t number[MANY];
    static const size_t zeros[] = {8190, 8191, 8192, 8193, 16383, 16384, 20000, MANY - 1};
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++) {
        for (unsigned detail = 0; detail <= FEDCODEC_RANS_DETAIL_MAX; detail++) {
            size_t len = put_lopsided(number, zeros[i], detail);
            assert_int_equal(first_length(len), 14);
            assert_reads(number, zeros[i] + 1, detail, len);
        }
    }
}

/* Compare with a reference that follows only docs/codec-formats.md. */
static void assert_as_the_reference(const uint32_t *position, size_t k) {
    const unsigned detail = fedcodec_rans_detail(k);
    size_t len = 0, expected_len;
    uint8_t how;
    assert_fed_ok(fedcodec_rans_put(position, k, detail, dst, CAP, &len));
    uint8_t *expected = fed_reference_positions_put(2, false, 0.01, position, k,
                                                    position[k - 1] + 1, &expected_len, &how);
    assert_int_equal(how, 32 + detail);
    assert_int_equal(len, expected_len);
    assert_memory_equal(dst, expected, len);
    free(expected);
}

static void assert_two_gaps_as_the_reference(size_t zeros, size_t threes) {
    static uint32_t position[MANY];
    for (size_t i = 0; i < zeros + threes; i++) {
        position[i] = i < zeros ? (uint32_t)i : position[i - 1] + 4;
    }
    assert_as_the_reference(position, zeros + threes);
}

FED_TEST(scaled_weights_are_the_references) {
    static uint32_t position[MANY];
    for (size_t i = 0; i < MANY; i++) {
        uint32_t gap = i % 1000 == 7 ? 300 : i % 100 == 3 ? 17 : i % 20 == 0 ? 5 : 0;
        position[i] = i == 0 ? gap : position[i - 1] + 1 + gap;
    }
    assert_as_the_reference(position, MANY);
    assert_two_gaps_as_the_reference(8191, 2);
    assert_two_gaps_as_the_reference(8192, 2);
    assert_two_gaps_as_the_reference(16384, 4);
}

static size_t write_weights(unsigned length, bool padded) {
    fed_bit_writer w;
    size_t len = 0;
    fed_bit_writer_init(&w, dst, CAP);
    fed_put_bits(&w, 0, 7);
    fed_put_unary(&w, 2 * length - 1);
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    if (!padded) {
        dst[len - 1] &= 0xfe;
    }
    memcpy(dst + len, "\x00\x00\x01\x00", STATE_LEN); /* the state 2^16: nothing was coded */
    return len + STATE_LEN;
}

FED_TEST(a_length_above_14_is_refused) {
    static fedcodec_rans_reader r;
    for (unsigned length = 1; length <= 14; length++) {
        assert_fed_ok(fedcodec_rans_start(&r, dst, write_weights(length, true), 0, 0));
    }
    for (unsigned length = 15; length <= 20; length++) {
        size_t len = write_weights(length, true);
        assert_fed_status(fedcodec_rans_start(&r, dst, len, 0, 0), FED_EFORMAT);
    }
}

FED_TEST(a_zero_in_the_padding_is_refused) {
    static fedcodec_rans_reader r;
    /* 7 + 2 * 3 = 13 bits, so three bits of padding */
    assert_fed_ok(fedcodec_rans_start(&r, dst, write_weights(3, true), 0, 0));
    for (unsigned bit = 0; bit < 3; bit++) {
        size_t len = write_weights(3, true);
        dst[1] ^= (uint8_t)(1u << bit);
        assert_fed_status(fedcodec_rans_start(&r, dst, len, 0, 0), FED_EFORMAT);
    }
    assert_fed_status(fedcodec_rans_start(&r, dst, write_weights(3, false), 0, 0), FED_EFORMAT);
}
