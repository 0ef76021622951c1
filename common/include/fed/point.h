/* Points of P-256 as bytes: keys that bytes are sealed to, and signatures of devices' keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_POINT_H
#define FED_POINT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/crypto.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 *   secret  FED_POINT_SECRET bytes, a number of 1 to n - 1 of P-256, big-endian
 *   point   FED_POINT bytes, a public key, not compressed: 4 | x | y
 *
 * Thread-safe: no shared state.
 */
enum { FED_POINT_SECRET = 32, FED_POINT = 65 };

/** Make a new pair of keys. Errors: FED_EIO no random bytes; FED_ENOMEM. */
fed_status fed_point_new(uint8_t secret[FED_POINT_SECRET], uint8_t public_key[FED_POINT],
                         fed_error *err) FED_CHECKED;

/** Compute the public key of a secret. FED_EFORMAT: the secret is out of its range. */
fed_status fed_point_of(const uint8_t secret[FED_POINT_SECRET], uint8_t public_key[FED_POINT],
                        fed_error *err) FED_CHECKED;

/** Check that bytes are a point of P-256 and not its zero. FED_EFORMAT: they are not. */
fed_status fed_point_check(const uint8_t public_key[FED_POINT], fed_error *err) FED_CHECKED;

/** The public keys of one party, such as a helper: the one in use, and perhaps a spare one. */
typedef struct fed_points {
    uint8_t at[2][FED_POINT];
    unsigned count; /* 1 or 2 */
} fed_points;

enum { FED_POINTS_TEXT = 2 * (2 * FED_POINT + 1) /* bytes of their text with its NUL */ };

/** Read one or two keys from a text: the 130 hex digits of each, and blanks or line ends around
 * them. FED_EFORMAT: other words, no point, or one key twice. */
fed_status fed_points_read(const char *text, fed_points *points, fed_error *err) FED_CHECKED;
/** Write the text: the keys' digits with a blank between. */
void fed_points_write(const fed_points *points, char text[FED_POINTS_TEXT]);

/** Read them from a file, such as a helper's helper.pem. Errors: FED_EFORMAT as fed_points_read;
 * those of fed_file_read_text. */
fed_status fed_points_load(const char *path, fed_points *points, fed_error *err) FED_CHECKED;

/** Compute the x of secret * point, big-endian: what the owners of two keys share. FED_EFORMAT: a
 * secret out of its range, or bytes that are no point. */
fed_status fed_point_product(const uint8_t secret[FED_POINT_SECRET], const uint8_t point[FED_POINT],
                             uint8_t x[FED_POINT_SECRET], fed_error *err) FED_CHECKED;

enum { FED_SIGNATURE = 64 /* r | s of ECDSA on P-256 with SHA-256, each 32 bytes, big-endian */ };

/** Write a secret as a private key in PEM. FED_EFORMAT: the secret is out of its range. FED_ENOMEM.
 * Wipe the key with fed_wipe. */
fed_status fed_key_of(const uint8_t secret[FED_POINT_SECRET], fed_pem *key,
                      fed_error *err) FED_CHECKED;

/** Write the public half of a private key in PEM as a point. FED_EFORMAT: no key of P-256. */
fed_status fed_key_point(const fed_pem *key, uint8_t public_key[FED_POINT],
                         fed_error *err) FED_CHECKED;

/** Write the public key of a certificate in PEM as a point. FED_EFORMAT: no certificate of a key
 * of P-256. */
fed_status fed_cert_point(const char *cert_pem, uint8_t public_key[FED_POINT],
                          fed_error *err) FED_CHECKED;

/** Compute a point's fingerprint: what fed_key_fingerprint says of the key. */
void fed_point_fingerprint(const uint8_t public_key[FED_POINT], uint8_t digest[FED_SHA256_SIZE]);

/** Sign data[len] with a private key in PEM. Two signatures of the same data differ. */
fed_status fed_key_sign(const fed_pem *key, const void *data, size_t len,
                        uint8_t signature[FED_SIGNATURE], fed_error *err) FED_CHECKED;

/** Check a signature. FED_EFORMAT: public_key is no point of P-256. FED_EAUTH: this key did not
 * sign this data. */
fed_status fed_point_verify(const uint8_t public_key[FED_POINT], const void *data, size_t len,
                            const uint8_t signature[FED_SIGNATURE], fed_error *err) FED_CHECKED;

FED_API_END

#endif
