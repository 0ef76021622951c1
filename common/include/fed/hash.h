/* Hashes: SHA-256 for identities and secrets, and a fast digest to tell models apart. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HASH_H
#define FED_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

enum { FED_SHA256_SIZE = 32, FED_SHA256_HEX = 65 };

/** Compute the SHA-256 (FIPS 180-4) of data[len]. */
void fed_sha256(const void *data, size_t len, uint8_t digest[FED_SHA256_SIZE]);

/** The state of a SHA-256 of bytes that come in pieces: begin, add as often as needed, end once. */
typedef struct fed_sha256_sum {
    uint64_t opaque[32]; /* used only by common/security/sha256.c */
} fed_sha256_sum;

void fed_sha256_begin(fed_sha256_sum *sum);
void fed_sha256_add(fed_sha256_sum *sum, const void *data, size_t len);
void fed_sha256_end(fed_sha256_sum *sum, uint8_t digest[FED_SHA256_SIZE]);

/** Compute the HMAC-SHA256 (RFC 2104) of data[len]: only someone with the key can compute it. key
 * and data may be NULL if their lengths are 0. Compare two results with fed_secret_compare. */
void fed_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                     uint8_t digest[FED_SHA256_SIZE]);

/** Write src[len] as lower-case hex with a NUL. dst has room for 2 * len + 1 characters. */
void fed_hex(const uint8_t *src, size_t len, char *dst);

/** Read len bytes from exactly 2 * len hex digits, upper or lower case. FED_EFORMAT: the text is
 * something else. */
fed_status fed_unhex(const char *text, uint8_t *dst, size_t len) FED_CHECKED;

/**
 * Return the XXH3-64 of the values' little-endian bytes. It shows that a model has other bits, by
 * error or damage, but not that someone forged it. It is much faster than SHA-256.
 */
uint64_t fed_digest(const float *values, size_t n);

/** Return the XXH3-64 of bytes. It shows that bytes were damaged, as in a torn file. */
uint64_t fed_digest_bytes(const void *data, size_t len);

FED_API_END

#endif
