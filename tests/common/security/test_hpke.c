/* HPKE and HKDF make the RFCs' bytes. What was sealed opens as it was, or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/hpke.h"

/* RFC 9180, A.3.1: the keys, info, text and aad. Its AEAD is AES-128-GCM. The sealed bytes below
 * are those of AES-256-GCM: section 5.1 with A.3.1's shared_secret c0d26aea..., in Python. The same
 * lines of Python make A.3.1's own ct with aead_id 1. */
static const char sender_hex[] = "4995788ef4b9d6132b249ce59a77281493eb39af373d236a1fe415cb0c2d7beb";
static const char receiver_hex[] =
    "f3ce7fdae57e1a310d87f1ebbde6f328be0a99cdbcadf4d6589cf29de4b8ffd2";
static const char receiver_public_hex[] =
    "04fe8c19ce0905191ebc298a9245792531f26f0cece2460639e8bc39cb7f706a826a779b4cf969b8a0e539c7f62fb3"
    "d30ad6aa8f80e30f1d128aafd68a2ce72ea0";
static const char enc_hex[] =
    "04a92719c6195d5085104f469a8b9814d5838ff72b60501e2c4466e5e67b325ac98536d7b61a1af4b78e5b7f951c09"
    "00be863c403ce65c9bfcb9382657222d18c4";
static const char sealed_hex[] =
    "518c46e6810fbc55362f7d5995b0f54339d93664ca44e5c74d0f289c4f7983b4781b193de04ad3319f177244de";
static const char text[] = "Beauty is truth, truth beauty";

enum { TEXT = sizeof text - 1, SEALED = TEXT + FED_HPKE_TAG };

static const fed_hpke_about about = {"Ode on a Grecian Urn", 20, "Count-0", 7};

typedef struct world {
    uint8_t sender[FED_POINT_SECRET], receiver[FED_POINT_SECRET], key[FED_POINT];
    uint8_t enc[FED_POINT], sealed[SEALED], plain[TEXT];
    fed_error err;
} world;

static void seal(world *w) {
    assert_fed_ok(fed_unhex(sender_hex, w->sender, sizeof w->sender));
    assert_fed_ok(fed_unhex(receiver_hex, w->receiver, sizeof w->receiver));
    assert_fed_ok(fed_point_of(w->receiver, w->key, &w->err));
    assert_fed_ok(
        fed_hpke_seal_with(w->sender, w->key, &about, text, TEXT, w->enc, w->sealed, &w->err));
}

static void assert_hex(const uint8_t *bytes, size_t len, const char *expected) {
    char hex[2 * 128 + 1];
    assert_true(len <= 128);
    fed_hex(bytes, len, hex);
    assert_string_equal(hex, expected);
}

FED_TEST(the_rfcs_keys_make_the_rfcs_bytes) {
    world mine = {0}, *w = &mine;
    seal(w);
    assert_hex(w->key, sizeof w->key, receiver_public_hex);
    assert_hex(w->enc, sizeof w->enc, enc_hex);
    assert_hex(w->sealed, SEALED, sealed_hex);
    assert_fed_ok(fed_hpke_open(w->receiver, w->enc, &about, w->sealed, SEALED, w->plain, &w->err));
    assert_memory_equal(w->plain, text, TEXT);
}

FED_TEST(each_seal_has_a_key_of_its_own) {
    world mine = {0}, *w = &mine;
    uint8_t enc[FED_POINT], sealed[SEALED];
    seal(w);
    assert_fed_ok(fed_hpke_seal(w->key, &about, text, TEXT, w->enc, w->sealed, &w->err));
    assert_fed_ok(fed_hpke_seal(w->key, &about, text, TEXT, enc, sealed, &w->err));
    assert_memory_not_equal(enc, w->enc, sizeof enc);
    assert_memory_not_equal(sealed, w->sealed, SEALED);
    assert_fed_ok(fed_hpke_open(w->receiver, enc, &about, sealed, SEALED, w->plain, &w->err));
    assert_memory_equal(w->plain, text, TEXT);
}

FED_TEST(another_key_info_or_aad_opens_nothing) {
    world mine = {0}, *w = &mine;
    static const uint8_t zeros[TEXT];
    seal(w);
    const fed_hpke_about other_info = {"Ode on a Grecian Urn", 19, "Count-0", 7};
    const fed_hpke_about other_aad = {"Ode on a Grecian Urn", 20, "Count-1", 7};
    assert_fed_status(
        fed_hpke_open(w->receiver, w->enc, &other_info, w->sealed, SEALED, w->plain, &w->err),
        FED_EAUTH);
    assert_fed_status(
        fed_hpke_open(w->receiver, w->enc, &other_aad, w->sealed, SEALED, w->plain, &w->err),
        FED_EAUTH);
    assert_fed_status(
        fed_hpke_open(w->sender, w->enc, &about, w->sealed, SEALED, w->plain, &w->err), FED_EAUTH);
    assert_memory_equal(w->plain, zeros, TEXT);
}

FED_TEST(no_changed_byte_opens) {
    world mine = {0}, *w = &mine;
    seal(w);
    for (size_t k = 0; k < SEALED; k++) {
        w->sealed[k] ^= 0x10;
        assert_fed_status(
            fed_hpke_open(w->receiver, w->enc, &about, w->sealed, SEALED, w->plain, &w->err),
            FED_EAUTH);
        w->sealed[k] ^= 0x10;
    }
    for (size_t k = 0; k < FED_POINT; k++) { /* no longer a point of the curve */
        w->enc[k] ^= 0x10;
        assert_fed_status(
            fed_hpke_open(w->receiver, w->enc, &about, w->sealed, SEALED, w->plain, &w->err),
            FED_EFORMAT);
        w->enc[k] ^= 0x10;
    }
    assert_fed_status(
        fed_hpke_open(w->receiver, w->enc, &about, w->sealed, SEALED - 1, w->plain, &w->err),
        FED_EAUTH);
    assert_fed_status(
        fed_hpke_open(w->receiver, w->enc, &about, w->sealed, FED_HPKE_TAG - 1, w->plain, &w->err),
        FED_EFORMAT);
}

FED_TEST(keys_off_the_curve_are_refused) {
    world mine = {0}, *w = &mine;
    uint8_t zero[FED_POINT] = {0}, secret[FED_POINT_SECRET] = {0};
    seal(w);
    assert_fed_ok(fed_point_check(w->key, &w->err));
    assert_fed_status(fed_point_check(zero, &w->err), FED_EFORMAT);
    zero[0] = 4; /* x = y = 0 */
    assert_fed_status(fed_point_check(zero, &w->err), FED_EFORMAT);
    assert_fed_status(fed_hpke_seal(zero, &about, text, TEXT, w->enc, w->sealed, &w->err),
                      FED_EFORMAT);
    w->key[40] ^= 1;
    assert_fed_status(fed_point_check(w->key, &w->err), FED_EFORMAT);
    assert_fed_status(fed_point_of(secret, w->key, &w->err), FED_EFORMAT);
    memset(secret, 0xff, sizeof secret); /* above the order of the group */
    assert_fed_status(fed_point_of(secret, w->key, &w->err), FED_EFORMAT);
}

/* RFC 5869, A.3: no salt and no info. */
FED_TEST(hkdf_makes_the_rfcs_bytes) {
    uint8_t secret[22], okm[42];
    memset(secret, 0x0b, sizeof secret);
    assert_fed_ok(fed_hkdf(secret, sizeof secret, NULL, 0, okm, sizeof okm));
    assert_hex(okm, sizeof okm,
               "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96"
               "c8");
    assert_fed_status(fed_hkdf(secret, sizeof secret, secret, 257, okm, sizeof okm), FED_EINVAL);
}
