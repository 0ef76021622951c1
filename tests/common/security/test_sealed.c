/* Sealed (encrypted) bytes: the same input always gives the same bytes, they open with their key
 * only, and any changed byte is found. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/sealed.h"

enum { LEN = 100 };

static void fill(uint8_t data[LEN]) {
    for (int k = 0; k < LEN; k++) {
        data[k] = (uint8_t)(3 * k);
    }
}

static void seal(uint8_t data[LEN], uint8_t key[FED_SEALED_KEY]) {
    fill(data);
    fed_sha256(data, LEN, key);
    assert_fed_ok(fed_sealed_crypt(key, 0, data, LEN));
}

/* The expected bytes were made with other programs. Pipe the output of
 *     python3 -c "print(bytes(3*k&255 for k in range(100)).hex())" | xxd -r -p
 * into openssl dgst -sha256, and into openssl enc -aes-256-ctr -K DIGEST -iv 0...0 */
FED_TEST(other_programs_make_the_same_bytes) {
    static const char key_hex[] = "2a1b9357d39f48b66d8f3e2a1b952e646bc69a5e655a6dadb944bbe3ca05"
                                  "fb3c";
    static const char name_hex[] = "64e4509d35f19b12ebc0b3f722693911485446c7cf6bfb15d901f6753beb"
                                   "b45b";
    static const char sealed_hex[] =
        "f7cc8c024a459b026bb556c8d279411ff85783c907cf8ec7f796d0cdd2b92548"
        "201387bcaaeea2cd91fdc76afec03769c930aebc18c7abb2996c9c2d9e9d1214"
        "2b902bd5e8201126f32e11a4f55ddafd13cc7bdbb41ae2a7cc9497bdc057b9537e8d2c59";
    uint8_t data[LEN], key[FED_SEALED_KEY];
    char text[2 * LEN + 1], name[FED_SEALED_NAME];
    seal(data, key);
    fed_hex(key, sizeof key, text);
    assert_string_equal(text, key_hex);
    fed_sealed_name(key, name);
    assert_string_equal(name, name_hex);
    fed_hex(data, LEN, text);
    assert_string_equal(text, sealed_hex);
}

FED_TEST(sealed_bytes_open_to_what_they_were) {
    uint8_t data[LEN], plain[LEN], key[FED_SEALED_KEY];
    fill(plain);
    seal(data, key);
    assert_memory_not_equal(data, plain, LEN);
    assert_fed_ok(fed_sealed_open(key, data, LEN));
    assert_memory_equal(data, plain, LEN);
}

FED_TEST(pieces_are_sealed_as_the_whole) {
    uint8_t whole[LEN], key[FED_SEALED_KEY];
    seal(whole, key);
    for (size_t cut = 16; cut < LEN; cut += 16) {
        uint8_t data[LEN];
        fill(data);
        assert_fed_ok(fed_sealed_crypt(key, cut, data + cut, LEN - cut));
        assert_fed_ok(fed_sealed_crypt(key, 0, data, cut));
        assert_memory_equal(data, whole, LEN);
    }
}

/* At blocks 256 and 65536 the block counter carries into its next byte. */
FED_TEST(far_blocks_have_streams_of_their_own) {
    const uint8_t key[FED_SEALED_KEY] = {7};
    const uint64_t blocks[] = {0, 1, 255, 256, 65535, 65536, UINT64_C(1) << 40};
    uint8_t stream[7][16] = {{0}};
    for (size_t k = 0; k < 7; k++) {
        assert_fed_ok(fed_sealed_crypt(key, blocks[k] * 16, stream[k], 16));
        for (size_t other = 0; other < k; other++) {
            assert_memory_not_equal(stream[k], stream[other], 16);
        }
    }
}

FED_TEST(any_other_bit_is_noticed) {
    uint8_t sealed[LEN], data[LEN], key[FED_SEALED_KEY];
    seal(sealed, key);
    for (int bit = 0; bit < 8 * LEN; bit++) {
        memcpy(data, sealed, LEN);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_fed_status(fed_sealed_open(key, data, LEN), FED_EFORMAT);
    }
    for (size_t len = 0; len < LEN; len++) {
        memcpy(data, sealed, LEN);
        assert_fed_status(fed_sealed_open(key, data, len), FED_EFORMAT);
    }
    for (int bit = 0; bit < 8 * FED_SEALED_KEY; bit++) {
        memcpy(data, sealed, LEN);
        key[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_fed_status(fed_sealed_open(key, data, LEN), FED_EFORMAT);
        key[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
