/* Points of P-256 as bytes: keys to seal to, and signatures of devices' keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/point.h"

#include <string.h>

#include "common/security/mbedtls.h"

enum { NUMBER = 32 };

/* What a computation on the curve needs. */
typedef struct curve {
    mbedtls_ecp_group group;
    mbedtls_ecp_point point, result;
    mbedtls_mpi secret, r, s;
} curve;

static int draw(void *user, unsigned char *dst, size_t len) {
    (void)user;
    return fed_random(dst, len) == FED_OK ? 0 : MBEDTLS_ERR_ECP_RANDOM_FAILED;
}

static int curve_begin(curve *c) {
    mbedtls_ecp_group_init(&c->group);
    mbedtls_ecp_point_init(&c->point);
    mbedtls_ecp_point_init(&c->result);
    mbedtls_mpi_init(&c->secret);
    mbedtls_mpi_init(&c->r);
    mbedtls_mpi_init(&c->s);
    return mbedtls_ecp_group_load(&c->group, MBEDTLS_ECP_DP_SECP256R1);
}

static void curve_end(curve *c) {
    mbedtls_mpi_free(&c->s);
    mbedtls_mpi_free(&c->r);
    mbedtls_mpi_free(&c->secret);
    mbedtls_ecp_point_free(&c->result);
    mbedtls_ecp_point_free(&c->point);
    mbedtls_ecp_group_free(&c->group);
}

/* Say why: bad input, no random bytes, or no memory. */
static fed_status say(fed_error *err, int code, const char *what) {
    char reason[128];
    if (code == 0) {
        return FED_OK;
    }
    mbedtls_strerror(code, reason, sizeof reason);
    const fed_status status =
        code == MBEDTLS_ERR_ECP_RANDOM_FAILED ? FED_EIO
        : code == MBEDTLS_ERR_MPI_ALLOC_FAILED || code == MBEDTLS_ERR_ECP_ALLOC_FAILED
            ? FED_ENOMEM
            : FED_EFORMAT;
    return fed_fail(err, status, "%s: %s", what, reason);
}

static int read_point(curve *c, const uint8_t point[FED_POINT]) {
    if (point[0] != 4) {
        return MBEDTLS_ERR_ECP_INVALID_KEY;
    }
    const int code = mbedtls_ecp_point_read_binary(&c->group, &c->point, point, FED_POINT);
    return code != 0 ? code : mbedtls_ecp_check_pubkey(&c->group, &c->point);
}

static int read_secret(curve *c, const uint8_t secret[FED_POINT_SECRET]) {
    const int code = mbedtls_mpi_read_binary(&c->secret, secret, FED_POINT_SECRET);
    return code != 0 ? code : mbedtls_ecp_check_privkey(&c->group, &c->secret);
}

static int write_point(curve *c, const mbedtls_ecp_point *point, uint8_t dst[FED_POINT]) {
    size_t len = 0;
    return mbedtls_ecp_point_write_binary(&c->group, point, MBEDTLS_ECP_PF_UNCOMPRESSED, &len, dst,
                                          FED_POINT);
}

fed_status fed_point_new(uint8_t secret[FED_POINT_SECRET], uint8_t public_key[FED_POINT],
                         fed_error *err) {
    curve c;
    int code = curve_begin(&c);
    if (code == 0) {
        code = mbedtls_ecp_gen_keypair(&c.group, &c.secret, &c.point, draw, NULL);
    }
    if (code == 0) {
        code = write_point(&c, &c.point, public_key);
    }
    if (code == 0) {
        code = mbedtls_mpi_write_binary(&c.secret, secret, FED_POINT_SECRET);
    }
    curve_end(&c);
    return say(err, code, "can't make a key to seal to");
}

fed_status fed_point_of(const uint8_t secret[FED_POINT_SECRET], uint8_t public_key[FED_POINT],
                        fed_error *err) {
    curve c;
    int code = curve_begin(&c);
    if (code == 0) {
        code = read_secret(&c, secret);
    }
    if (code == 0) {
        code = mbedtls_ecp_mul(&c.group, &c.result, &c.secret, &c.group.G, draw, NULL);
    }
    if (code == 0) {
        code = write_point(&c, &c.result, public_key);
    }
    curve_end(&c);
    return say(err, code, "the secret half of a seal key is not one of P-256");
}

fed_status fed_point_check(const uint8_t public_key[FED_POINT], fed_error *err) {
    curve c;
    int code = curve_begin(&c);
    if (code == 0) {
        code = read_point(&c, public_key);
    }
    curve_end(&c);
    return say(err, code, "the public key is not a point of P-256");
}

fed_status fed_point_product(const uint8_t secret[FED_POINT_SECRET], const uint8_t point[FED_POINT],
                             uint8_t x[32], fed_error *err) {
    curve c;
    int code = curve_begin(&c);
    if (code == 0) {
        code = read_secret(&c, secret);
    }
    if (code == 0) {
        code = read_point(&c, point);
    }
    if (code == 0) {
        code = mbedtls_ecp_mul(&c.group, &c.result, &c.secret, &c.point, draw, NULL);
    }
    if (code == 0) {
        code = mbedtls_mpi_write_binary(&c.result.X, x, NUMBER);
    }
    curve_end(&c);
    return say(err, code, "a key of the sealed bytes is not one of P-256");
}

/* Fill in a pair of keys of P-256 from its secret. */
static int pair_fill(mbedtls_ecp_keypair *pair, const uint8_t secret[FED_POINT_SECRET]) {
    int code = mbedtls_ecp_group_load(&pair->grp, MBEDTLS_ECP_DP_SECP256R1);
    if (code == 0) {
        code = mbedtls_mpi_read_binary(&pair->d, secret, FED_POINT_SECRET);
    }
    if (code == 0) {
        code = mbedtls_ecp_check_privkey(&pair->grp, &pair->d);
    }
    return code != 0 ? code
                     : mbedtls_ecp_mul(&pair->grp, &pair->Q, &pair->d, &pair->grp.G, draw, NULL);
}

fed_status fed_key_of(const uint8_t secret[FED_POINT_SECRET], fed_pem *key, fed_error *err) {
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    int code = mbedtls_pk_setup(&pk, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (code == 0) {
        code = pair_fill(mbedtls_pk_ec(pk), secret);
    }
    if (code == 0) {
        code = mbedtls_pk_write_key_pem(&pk, (unsigned char *)key->text, sizeof key->text);
    }
    mbedtls_pk_free(&pk);
    return say(err, code, "the secret half of a seal key is not one of P-256");
}

static int pair_point(const mbedtls_pk_context *pk, curve *c, uint8_t dst[FED_POINT]) {
    if (mbedtls_pk_get_type(pk) != MBEDTLS_PK_ECKEY ||
        mbedtls_pk_ec(*pk)->grp.id != MBEDTLS_ECP_DP_SECP256R1) {
        return MBEDTLS_ERR_ECP_FEATURE_UNAVAILABLE;
    }
    return write_point(c, &mbedtls_pk_ec(*pk)->Q, dst);
}

static int parse_key(mbedtls_pk_context *pk, const fed_pem *key) {
    const size_t len = strnlen(key->text, sizeof key->text);
    return len == sizeof key->text ? MBEDTLS_ERR_PK_KEY_INVALID_FORMAT
                                   : mbedtls_pk_parse_key(pk, (const unsigned char *)key->text,
                                                          len + 1, NULL, 0, draw, NULL);
}

fed_status fed_key_point(const fed_pem *key, uint8_t public_key[FED_POINT], fed_error *err) {
    curve c;
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    int code = curve_begin(&c);
    if (code == 0) {
        code = parse_key(&pk, key);
    }
    if (code == 0) {
        code = pair_point(&pk, &c, public_key);
    }
    mbedtls_pk_free(&pk);
    curve_end(&c);
    return say(err, code, "the private key is not one of P-256 (PEM)");
}

fed_status fed_cert_point(const char *cert_pem, uint8_t public_key[FED_POINT], fed_error *err) {
    curve c;
    mbedtls_x509_crt cert;
    mbedtls_x509_crt_init(&cert);
    int code = curve_begin(&c);
    if (code == 0) {
        code = mbedtls_x509_crt_parse(&cert, (const unsigned char *)cert_pem, strlen(cert_pem) + 1);
    }
    if (code == 0) {
        code = pair_point(&cert.pk, &c, public_key);
    }
    mbedtls_x509_crt_free(&cert);
    curve_end(&c);
    return say(err, code, "the certificate is not one of a key of P-256 (PEM)");
}

void fed_point_fingerprint(const uint8_t public_key[FED_POINT], uint8_t digest[FED_SHA256_SIZE]) {
    /* SubjectPublicKeyInfo of RFC 5480: id-ecPublicKey, prime256v1, then the point. */
    static const uint8_t head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                   0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                   0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
    fed_sha256_sum sum;
    fed_sha256_begin(&sum);
    fed_sha256_add(&sum, head, sizeof head);
    fed_sha256_add(&sum, public_key, FED_POINT);
    fed_sha256_end(&sum, digest);
}

fed_status fed_key_sign(const fed_pem *key, const void *data, size_t len,
                        uint8_t signature[FED_SIGNATURE], fed_error *err) {
    curve c;
    uint8_t digest[FED_SHA256_SIZE], point[FED_POINT];
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    fed_sha256(data, len, digest);
    int code = curve_begin(&c);
    if (code == 0) {
        code = parse_key(&pk, key);
    }
    if (code == 0) {
        code = pair_point(&pk, &c, point); /* it is a key of P-256 */
    }
    if (code == 0) {
        code = mbedtls_ecdsa_sign(&c.group, &c.r, &c.s, &mbedtls_pk_ec(pk)->d, digest,
                                  sizeof digest, draw, NULL);
    }
    if (code == 0) {
        code = mbedtls_mpi_write_binary(&c.r, signature, NUMBER);
    }
    if (code == 0) {
        code = mbedtls_mpi_write_binary(&c.s, signature + NUMBER, NUMBER);
    }
    mbedtls_pk_free(&pk);
    curve_end(&c);
    return say(err, code, "can't sign with the private key (PEM, of P-256)");
}

fed_status fed_point_verify(const uint8_t public_key[FED_POINT], const void *data, size_t len,
                            const uint8_t signature[FED_SIGNATURE], fed_error *err) {
    curve c;
    uint8_t digest[FED_SHA256_SIZE];
    fed_sha256(data, len, digest);
    int code = curve_begin(&c);
    if (code == 0) {
        code = read_point(&c, public_key);
    }
    if (code == 0) {
        code = mbedtls_mpi_read_binary(&c.r, signature, NUMBER);
    }
    if (code == 0) {
        code = mbedtls_mpi_read_binary(&c.s, signature + NUMBER, NUMBER);
    }
    if (code == 0) {
        code = mbedtls_ecdsa_verify(&c.group, digest, sizeof digest, &c.point, &c.r, &c.s);
        if (code == MBEDTLS_ERR_ECP_VERIFY_FAILED) {
            curve_end(&c);
            return fed_fail(err, FED_EAUTH, "the signature is not one of this key and these bytes");
        }
    }
    curve_end(&c);
    return say(err, code, "the public key is not a point of P-256");
}
