/* A signature is of one key and one text, and a key's point is the same wherever it stands. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/point.h"

static const char text[] = "Beauty is truth, truth beauty";

enum { TEXT = sizeof text - 1 };

typedef struct signer {
    fed_pem key, other;
    fed_error err;
} signer;

FED_TEST(a_signature_is_of_one_key_and_one_text) {
    signer mine = {0}, *s = &mine;
    uint8_t point[FED_POINT], other[FED_POINT], signature[FED_SIGNATURE];
    uint8_t fingerprint[FED_SHA256_SIZE], expected[FED_SHA256_SIZE];
    assert_fed_ok(fed_key_new(&s->key, &s->err));
    assert_fed_ok(fed_key_new(&s->other, &s->err));
    assert_fed_ok(fed_key_point(&s->key, point, &s->err));
    assert_fed_ok(fed_key_point(&s->other, other, &s->err));
    fed_point_fingerprint(point, fingerprint);
    assert_fed_ok(fed_key_fingerprint(&s->key, expected, &s->err));
    assert_memory_equal(fingerprint, expected, sizeof expected);

    assert_fed_ok(fed_key_sign(&s->key, text, TEXT, signature, &s->err));
    assert_fed_ok(fed_point_verify(point, text, TEXT, signature, &s->err));
    assert_fed_status(fed_point_verify(point, text, TEXT - 1, signature, &s->err), FED_EAUTH);
    assert_fed_status(fed_point_verify(other, text, TEXT, signature, &s->err), FED_EAUTH);
    for (size_t k = 0; k < FED_SIGNATURE; k += 9) {
        signature[k] ^= 1;
        assert_fed_status(fed_point_verify(point, text, TEXT, signature, &s->err), FED_EAUTH);
        signature[k] ^= 1;
    }
    point[0] = 2;
    assert_fed_status(fed_point_verify(point, text, TEXT, signature, &s->err), FED_EFORMAT);
}

FED_TEST(a_certificates_point_is_its_keys) {
    signer mine = {0}, *s = &mine;
    uint8_t of_key[FED_POINT], of_cert[FED_POINT];
    assert_fed_ok(fed_key_new(&s->key, &s->err));
    assert_fed_ok(fed_ca_new(&s->key, "ca", 1, 4102444800, &s->other, &s->err));
    assert_fed_ok(fed_key_point(&s->key, of_key, &s->err));
    assert_fed_ok(fed_cert_point(s->other.text, of_cert, &s->err));
    assert_memory_equal(of_key, of_cert, sizeof of_key);
    assert_fed_status(fed_cert_point("no certificate", of_cert, &s->err), FED_EFORMAT);
    assert_fed_status(fed_key_point(&s->other, of_key, &s->err), FED_EFORMAT);
}

FED_TEST(a_secret_in_pem_has_the_point_of_the_secret) {
    signer mine = {0}, *s = &mine;
    uint8_t secret[FED_POINT_SECRET], point[FED_POINT], of_key[FED_POINT];
    uint8_t signature[FED_SIGNATURE];
    assert_fed_ok(fed_point_new(secret, point, &s->err));
    assert_fed_ok(fed_key_of(secret, &s->key, &s->err));
    assert_fed_ok(fed_key_point(&s->key, of_key, &s->err));
    assert_memory_equal(of_key, point, sizeof point);
    assert_fed_ok(fed_key_sign(&s->key, text, TEXT, signature, &s->err));
    assert_fed_ok(fed_point_verify(point, text, TEXT, signature, &s->err));
    memset(secret, 0, sizeof secret);
    assert_fed_status(fed_key_of(secret, &s->key, &s->err), FED_EFORMAT);
    memset(secret, 0xff, sizeof secret);
    assert_fed_status(fed_key_of(secret, &s->key, &s->err), FED_EFORMAT);
}

FED_TEST(two_owners_share_a_number) {
    uint8_t a[FED_POINT_SECRET], b[FED_POINT_SECRET], of_a[FED_POINT], of_b[FED_POINT];
    uint8_t ab[FED_POINT_SECRET], ba[FED_POINT_SECRET];
    fed_error err;
    assert_fed_ok(fed_point_new(a, of_a, &err));
    assert_fed_ok(fed_point_new(b, of_b, &err));
    assert_fed_ok(fed_point_product(a, of_b, ab, &err));
    assert_fed_ok(fed_point_product(b, of_a, ba, &err));
    assert_memory_equal(ab, ba, sizeof ab);
}
