/* Hash functions with published results, and conversion to hex and back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/hash.h"
#include "fed_cases.h"

static void assert_sha256(const char *text, size_t len, const char *wanted) {
    uint8_t digest[FED_SHA256_SIZE];
    char hex[FED_SHA256_HEX];
    fed_sha256(text, len, digest);
    fed_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, wanted);
}

FED_TEST(sha256_agrees_with_the_standards_examples) {
    assert_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

FED_TEST(sha256_of_pieces_is_that_of_the_whole) {
    uint8_t data[200], whole[FED_SHA256_SIZE], digest[FED_SHA256_SIZE];
    for (size_t k = 0; k < sizeof data; k++) {
        data[k] = (uint8_t)(7 * k);
    }
    fed_sha256(data, sizeof data, whole);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        fed_sha256_sum sum;
        fed_sha256_begin(&sum);
        fed_sha256_add(&sum, data, cut);
        fed_sha256_add(&sum, data + cut, sizeof data - cut);
        fed_sha256_end(&sum, digest);
        assert_memory_equal(digest, whole, sizeof whole);
    }
}

FED_TEST(sha256_of_a_million_letters_agrees_with_the_standard) {
    enum { MILLION = 1000000 };
    char *text = malloc(MILLION);
    assert_non_null(text);
    memset(text, 'a', MILLION);
    assert_sha256(text, MILLION,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

static void assert_hmac(const void *key, size_t key_len, const char *data, size_t len,
                        const char *wanted) {
    uint8_t digest[FED_SHA256_SIZE];
    char hex[FED_SHA256_HEX];
    fed_hmac_sha256(key, key_len, data, len, digest);
    fed_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, wanted);
}

FED_TEST(hmac_agrees_with_rfc_4231) {
    uint8_t key[131];
    memset(key, 0x0b, sizeof key);
    assert_hmac(key, 20, "Hi There", 8,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_hmac("Jefe", 4, "what do ya want for nothing?", 28,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key); /* a key longer than a block is hashed first */
    assert_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    assert_hmac(NULL, 0, NULL, 0,
                "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

/* The input of xxHash's own self-test: bytes from a linear generator. */
static void fill_sanity_buffer(uint8_t *dst, size_t len) {
    uint64_t generator = 2654435761U;
    for (size_t i = 0; i < len; i++) {
        dst[i] = (uint8_t)(generator >> 56);
        generator *= 11400714785074694797U;
    }
}

FED_TEST(digest_of_bytes_agrees_with_xxh3s_known_answers) {
    uint8_t bytes[2367];
    fill_sanity_buffer(bytes, sizeof bytes);
    assert_int_equal(fed_digest_bytes(bytes, 0), 0x2D06800538D394C2);
    assert_int_equal(fed_digest_bytes(bytes, 1), 0xC44BDFF4074EECDB);
    assert_int_equal(fed_digest_bytes(bytes, 6), 0x27B56A84CD2D7325);
    assert_int_equal(fed_digest_bytes(bytes, 12), 0xA713DAF0DFBB77E7);
    assert_int_equal(fed_digest_bytes(bytes, 24), 0xA3FE70BF9D3510EB);
    assert_int_equal(fed_digest_bytes(bytes, 48), 0x397DA259ECBA1F11);
    assert_int_equal(fed_digest_bytes(bytes, 80), 0xBCDEFBBB2C47C90A);
    assert_int_equal(fed_digest_bytes(bytes, 195), 0xCD94217EE362EC3A);
    assert_int_equal(fed_digest_bytes(bytes, 403), 0xCDEB804D65C6DEA4);
    assert_int_equal(fed_digest_bytes(bytes, 2367), 0xCB37AEB9E5D361ED);
}

FED_TEST(digest_of_values_is_that_of_their_little_endian_bytes) {
    enum { N = 1000 };
    float values[N];
    uint8_t bytes[N * 4];
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)i * -0.37F;
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (size_t k = 0; k < 4; k++) {
            bytes[i * 4 + k] = (uint8_t)(bits >> (8 * k));
        }
    }
    assert_int_equal(fed_digest(values, N), fed_digest_bytes(bytes, sizeof bytes));
    assert_int_equal(fed_digest(values, 0), fed_digest_bytes(bytes, 0));
}

FED_TEST(digest_tells_minus_zero_from_zero) {
    float zero = 0.0F, minus_zero = -0.0F;
    assert_int_not_equal(fed_digest(&zero, 1), fed_digest(&minus_zero, 1));
}

FED_TEST(hex_and_unhex_are_inverse_for_every_byte) {
    uint8_t bytes[256], back[256];
    char text[2 * sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)i;
    }
    fed_hex(bytes, sizeof bytes, text);
    assert_int_equal(strlen(text), 512);
    assert_fed_ok(fed_unhex(text, back, sizeof back));
    assert_memory_equal(bytes, back, sizeof back);
}

FED_TEST(unhex_takes_both_cases) {
    uint8_t bytes[2];
    assert_fed_ok(fed_unhex("aBFf", bytes, 2));
    assert_int_equal(bytes[0], 0xAB);
    assert_int_equal(bytes[1], 0xFF);
}

FED_TEST(unhex_refuses_what_is_not_exactly_that_many_digits) {
    static const char *const bad[] = {"",      "a",      "abc",  "abcde", "abcdef",
                                      "ab cd", "0xab",   "abcg", "ab\n0", "-123",
                                      "abc/",  "ab\x80", "ab:0", "abc@",  "abc`"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t bytes[2] = {1, 2};
        assert_fed_status(fed_unhex(bad[i], bytes, 2), FED_EFORMAT);
        assert_int_equal(bytes[0], 1);
        assert_int_equal(bytes[1], 2);
    }
}
