/* Seal a few bytes to a public key (HPKE), and derive keys (HKDF). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HPKE_H
#define FED_HPKE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/point.h"

FED_API_BEGIN

/*
 * Hybrid public key encryption as in RFC 9180: mode base, DHKEM(P-256, HKDF-SHA256), HKDF-SHA256,
 * AES-256-GCM (identifiers 0x0010, 0x0001, 0x0002), one message a key ("single-shot", section 6.1).
 *
 *   enc     65 bytes, the sender's public key of this one message: a point (fed/point.h)
 *   sealed  the message's length and FED_HPKE_TAG bytes
 *
 * Whoever has the secret opens the message; nobody else reads or changes it. It says nothing of who
 * sealed it. info and aad are bound to the message, and not sent. Both may be NULL if their length
 * is 0. Thread-safe: no shared state.
 */
enum { FED_HPKE_TAG = 16 };

/** What a message is bound to. The bytes stay the caller's. */
typedef struct fed_hpke_about {
    const void *info;
    size_t info_len;
    const void *aad;
    size_t aad_len;
} fed_hpke_about;

/**
 * Seal plain[len] to public_key, with a fresh key of its own. sealed has room for len +
 * FED_HPKE_TAG bytes. Errors: FED_EFORMAT public_key is no point of P-256; FED_EIO no random
 * bytes; FED_ENOMEM. On failure enc and sealed have nothing of use.
 */
fed_status fed_hpke_seal(const uint8_t public_key[FED_POINT], const fed_hpke_about *about,
                         const void *plain, size_t len, uint8_t enc[FED_POINT], uint8_t *sealed,
                         fed_error *err) FED_CHECKED;

/** As fed_hpke_seal, with the sender's secret given. It seals one message only: who knows it reads
 * the message. For tests that compare with other programs' bytes. */
fed_status fed_hpke_seal_with(const uint8_t sender[FED_POINT_SECRET],
                              const uint8_t public_key[FED_POINT], const fed_hpke_about *about,
                              const void *plain, size_t len, uint8_t enc[FED_POINT],
                              uint8_t *sealed, fed_error *err) FED_CHECKED;

/**
 * Open sealed[len] with the receiver's secret. plain has room for len - FED_HPKE_TAG bytes.
 * Errors: FED_EFORMAT enc is no point of P-256, or len is too short; FED_EAUTH the message was
 * sealed to another key, or with other info or aad, or it was changed. plain is zeros then.
 */
fed_status fed_hpke_open(const uint8_t secret[FED_POINT_SECRET], const uint8_t enc[FED_POINT],
                         const fed_hpke_about *about, const uint8_t *sealed, size_t len,
                         uint8_t *plain, fed_error *err) FED_CHECKED;

/** Derive len bytes (at most 255 * 32) from a secret: HKDF-SHA256 of RFC 5869 without salt.
 * FED_EINVAL: len is above that, or info is longer than 256 bytes. */
fed_status fed_hkdf(const void *secret, size_t secret_len, const void *info, size_t info_len,
                    uint8_t *dst, size_t len) FED_CHECKED;

FED_API_END

#endif
