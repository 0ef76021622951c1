/* HPKE (RFC 9180) and HKDF (RFC 5869), by mbedTLS's P-256 and AES-256-GCM. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/hpke.h"

#include <stdbool.h>
#include <string.h>

#include "common/security/mbedtls.h"
#include "fed/bytes.h"

enum { KEY = 32, NONCE = 12, INFO_MOST = 256, LABELLED_MOST = 512 };

/* "HPKE" | kem | kdf | aead, and "KEM" | kem: sections 5.1 and 4.1. */
static const uint8_t hpke_suite[] = {'H', 'P', 'K', 'E', 0, 0x10, 0, 1, 0, 2};
static const uint8_t kem_suite[] = {'K', 'E', 'M', 0, 0x10};

typedef struct suite {
    const uint8_t *id;
    size_t len;
} suite;

static const suite HPKE = {hpke_suite, sizeof hpke_suite}, KEM = {kem_suite, sizeof kem_suite};

/* HKDF-Expand: dst[len] from prk. */
static fed_status expand(const uint8_t prk[KEY], const void *info, size_t info_len, uint8_t *dst,
                         size_t len) {
    uint8_t block[KEY], text[KEY + LABELLED_MOST + 1];
    FED_REQUIRE(len <= (size_t)255 * KEY && info_len <= LABELLED_MOST, FED_EINVAL);
    size_t before = 0; /* bytes of the block before: none of the first */
    for (unsigned i = 1; len > 0; i++) {
        const size_t n = len < KEY ? len : KEY;
        memcpy(text, block, before);
        if (info_len > 0) {
            memcpy(text + before, info, info_len);
        }
        text[before + info_len] = (uint8_t)i;
        fed_hmac_sha256(prk, KEY, text, before + info_len + 1, block);
        memcpy(dst, block, n);
        dst += n;
        len -= n;
        before = KEY;
    }
    mbedtls_platform_zeroize(block, sizeof block);
    mbedtls_platform_zeroize(text, sizeof text);
    return FED_OK;
}

fed_status fed_hkdf(const void *secret, size_t secret_len, const void *info, size_t info_len,
                    uint8_t *dst, size_t len) {
    uint8_t prk[KEY];
    FED_REQUIRE(info_len <= INFO_MOST, FED_EINVAL);
    fed_hmac_sha256(NULL, 0, secret, secret_len, prk);
    const fed_status status = expand(prk, info, info_len, dst, len);
    mbedtls_platform_zeroize(prk, sizeof prk);
    return status;
}

/* LabeledExtract(salt, label, ikm) of section 4. The lengths of ikm are not bounded. */
static fed_status extract(suite of, const uint8_t *salt, size_t salt_len, const char *label,
                          const void *ikm, size_t len, uint8_t prk[KEY]) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, "HPKE-v1", 7);
    fed_write_bytes(&w, of.id, of.len);
    fed_write_bytes(&w, label, strlen(label));
    fed_write_bytes(&w, ikm, len);
    const fed_status status = w.status;
    if (status == FED_OK) {
        fed_hmac_sha256(salt, salt_len, w.data, w.len, prk);
        mbedtls_platform_zeroize(w.data, w.len);
    }
    fed_writer_free(&w);
    return status;
}

/* LabeledExpand(prk, label, info, len) of section 4. */
static fed_status expand_labelled(suite of, const uint8_t prk[KEY], const char *label,
                                  const void *info, size_t info_len, uint8_t *dst, size_t len) {
    uint8_t text[LABELLED_MOST];
    fed_writer w;
    fed_writer_fixed(&w, text, sizeof text);
    fed_write_u8(&w, (uint8_t)(len >> 8));
    fed_write_u8(&w, (uint8_t)len);
    fed_write_bytes(&w, "HPKE-v1", 7);
    fed_write_bytes(&w, of.id, of.len);
    fed_write_bytes(&w, label, strlen(label));
    fed_write_bytes(&w, info, info_len);
    FED_TRY(w.status);
    return expand(prk, text, w.len, dst, len);
}

/* The shared secret of a Diffie-Hellman point, DHKEM's ExtractAndExpand with enc | receiver. */
static fed_status shared_secret(const uint8_t dh[KEY], const uint8_t enc[FED_POINT],
                                const uint8_t receiver[FED_POINT], uint8_t shared[KEY]) {
    uint8_t prk[KEY], context[2 * FED_POINT];
    memcpy(context, enc, FED_POINT);
    memcpy(context + FED_POINT, receiver, FED_POINT);
    FED_TRY(extract(KEM, NULL, 0, "eae_prk", dh, KEY, prk));
    const fed_status status =
        expand_labelled(KEM, prk, "shared_secret", context, sizeof context, shared, KEY);
    mbedtls_platform_zeroize(prk, sizeof prk);
    return status;
}

/* KeySchedule of section 5.1, mode base: no psk. */
static fed_status schedule(const uint8_t shared[KEY], const fed_hpke_about *about, uint8_t key[KEY],
                           uint8_t nonce[NONCE]) {
    uint8_t context[1 + 2 * KEY] = {0}, secret[KEY];
    FED_TRY(extract(HPKE, NULL, 0, "psk_id_hash", NULL, 0, context + 1));
    FED_TRY(extract(HPKE, NULL, 0, "info_hash", about->info, about->info_len, context + 1 + KEY));
    FED_TRY(extract(HPKE, shared, KEY, "secret", NULL, 0, secret));
    fed_status status = expand_labelled(HPKE, secret, "key", context, sizeof context, key, KEY);
    if (status == FED_OK) {
        status = expand_labelled(HPKE, secret, "base_nonce", context, sizeof context, nonce, NONCE);
    }
    mbedtls_platform_zeroize(secret, sizeof secret);
    return status;
}

/* The text that AES-GCM reads, and where it writes. */
typedef struct message {
    const uint8_t *from;
    uint8_t *to;
    size_t len; /* of the plain text; the tag follows in the sealed one */
    bool sealing;
} message;

static fed_status crypt_message(const uint8_t key[KEY], const uint8_t nonce[NONCE],
                                const fed_hpke_about *about, const message *m, fed_error *err) {
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    int code = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key, 8 * KEY);
    if (code == 0 && m->sealing) {
        code =
            mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, m->len, nonce, NONCE, about->aad,
                                      about->aad_len, m->from, m->to, FED_HPKE_TAG, m->to + m->len);
    } else if (code == 0) {
        code = mbedtls_gcm_auth_decrypt(&gcm, m->len, nonce, NONCE, about->aad, about->aad_len,
                                        m->from + m->len, FED_HPKE_TAG, m->from, m->to);
    }
    mbedtls_gcm_free(&gcm);
    if (code == MBEDTLS_ERR_GCM_AUTH_FAILED) {
        return fed_fail(err, FED_EAUTH,
                        "the sealed bytes don't open: they were sealed to another key or for "
                        "another purpose, or they were changed");
    }
    return code == 0 ? FED_OK : fed_fail(err, FED_ENOMEM, "out of memory to seal or open bytes");
}

static fed_status crypt_with(const uint8_t dh[KEY], const uint8_t enc[FED_POINT],
                             const uint8_t receiver[FED_POINT], const fed_hpke_about *about,
                             const message *m, fed_error *err) {
    uint8_t shared[KEY], key[KEY], nonce[NONCE];
    fed_status status = shared_secret(dh, enc, receiver, shared);
    if (status == FED_OK) {
        status = schedule(shared, about, key, nonce);
    }
    if (status != FED_OK) {
        status = fed_fail(err, status, "out of memory to derive a key");
    } else {
        status = crypt_message(key, nonce, about, m, err);
    }
    mbedtls_platform_zeroize(shared, sizeof shared);
    mbedtls_platform_zeroize(key, sizeof key);
    return status;
}

fed_status fed_hpke_seal_with(const uint8_t sender[FED_POINT_SECRET],
                              const uint8_t public_key[FED_POINT], const fed_hpke_about *about,
                              const void *plain, size_t len, uint8_t enc[FED_POINT],
                              uint8_t *sealed, fed_error *err) {
    uint8_t dh[KEY];
    const message m = {plain, sealed, len, true};
    FED_TRY(fed_point_of(sender, enc, err));
    FED_TRY(fed_point_product(sender, public_key, dh, err));
    const fed_status status = crypt_with(dh, enc, public_key, about, &m, err);
    mbedtls_platform_zeroize(dh, sizeof dh);
    return status;
}

fed_status fed_hpke_seal(const uint8_t public_key[FED_POINT], const fed_hpke_about *about,
                         const void *plain, size_t len, uint8_t enc[FED_POINT], uint8_t *sealed,
                         fed_error *err) {
    uint8_t sender[KEY], dh[KEY];
    const message m = {plain, sealed, len, true};
    FED_TRY(fed_point_new(sender, enc, err));
    fed_status status = fed_point_product(sender, public_key, dh, err);
    mbedtls_platform_zeroize(sender, sizeof sender);
    if (status == FED_OK) {
        status = crypt_with(dh, enc, public_key, about, &m, err);
    }
    mbedtls_platform_zeroize(dh, sizeof dh);
    return status;
}

fed_status fed_hpke_open(const uint8_t secret[FED_POINT_SECRET], const uint8_t enc[FED_POINT],
                         const fed_hpke_about *about, const uint8_t *sealed, size_t len,
                         uint8_t *plain, fed_error *err) {
    uint8_t dh[KEY], receiver[FED_POINT];
    if (len < FED_HPKE_TAG) {
        return fed_fail(err, FED_EFORMAT, "sealed bytes have at least %d bytes; here are %zu",
                        FED_HPKE_TAG, len);
    }
    const message m = {sealed, plain, len - FED_HPKE_TAG, false};
    FED_TRY(fed_point_product(secret, enc, dh, err));
    fed_status status = fed_point_of(secret, receiver, err);
    if (status == FED_OK) {
        status = crypt_with(dh, enc, receiver, about, &m, err);
    }
    mbedtls_platform_zeroize(dh, sizeof dh);
    return status;
}
