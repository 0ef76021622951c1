/* Codes of a few bits: packed into a stream of bits, and unpacked to the same codes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/prim/pack.h"
#include "fed/rng.h"

enum { MOST = 40, BYTES = MOST + FEDCODEC_PACK_MORE };

static void draw(fed_rng *rng, unsigned bits, size_t n, uint8_t *code) {
    for (size_t i = 0; i < n; i++) {
        code[i] = (uint8_t)fed_rng_below(rng, 1u << bits);
    }
}

static unsigned bit_of(const uint8_t *bytes, size_t at) {
    return bytes[at / 8] >> (7 - at % 8) & 1;
}

FED_TEST(codes_are_a_bit_stream_that_ends_in_zeros) {
    fed_rng rng;
    fed_rng_init(&rng, 1, 0, 0);
    for (unsigned bits = 1; bits <= 8; bits++) {
        for (size_t n = 0; n <= MOST; n++) {
            uint8_t code[BYTES], packed[BYTES];
            draw(&rng, bits, n, code);
            fedcodec_pack(code, n, bits, packed);
            for (size_t at = 0; at < n * bits; at++) {
                assert_int_equal(bit_of(packed, at), code[at / bits] >> (bits - 1 - at % bits) & 1);
            }
            for (size_t at = n * bits; at < 8 * fedcodec_packed_len(n, bits); at++) {
                assert_int_equal(bit_of(packed, at), 0);
            }
        }
    }
}

FED_TEST(unpacking_gives_the_codes) {
    fed_rng rng;
    fed_rng_init(&rng, 2, 0, 0);
    for (unsigned bits = 1; bits <= 8; bits++) {
        for (size_t n = 0; n <= MOST; n++) {
            uint8_t code[BYTES], packed[BYTES], again[BYTES];
            draw(&rng, bits, n, code);
            fedcodec_pack(code, n, bits, packed);
            fedcodec_unpack(packed, n, bits, again);
            assert_memory_equal(again, code, n);
        }
    }
}
