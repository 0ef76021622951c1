/* Hashes: SHA-256 for identities and secrets, a fast 64-bit digest for "is it the same model". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HASH_H
#define FED_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

enum { FED_SHA256_SIZE = 32, FED_SHA256_HEX = 65 };

/** SHA-256 (FIPS 180-4) of data[len]. */
void fed_sha256(const void *data, size_t len, uint8_t digest[FED_SHA256_SIZE]);

/** SHA-256 of bytes that come in pieces: begin, add as often as needed, end once. */
typedef struct fed_sha256_sum {
    uint64_t opaque[32]; /* only common/security/sha256.c uses it */
} fed_sha256_sum;

void fed_sha256_begin(fed_sha256_sum *sum);
void fed_sha256_add(fed_sha256_sum *sum, const void *data, size_t len);
void fed_sha256_end(fed_sha256_sum *sum, uint8_t digest[FED_SHA256_SIZE]);

/** HMAC-SHA256 (RFC 2104) of data[len]: who computes it has data and key. key and data may be NULL
 * if their lengths are 0. Compare two with fed_secret_compare. */
void fed_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                     uint8_t digest[FED_SHA256_SIZE]);

/** Lower-case hex of src[len], terminated: dst holds 2 * len + 1 characters. */
void fed_hex(const uint8_t *src, size_t len, char *dst);

/** Read len bytes from exactly 2 * len hex digits, upper or lower case. FED_EFORMAT: other text. */
fed_status fed_unhex(const char *text, uint8_t *dst, size_t len) FED_CHECKED;

/**
 * XXH3-64 of the values' little-endian bytes. It detects a model with other bits (D5), not a
 * forgery. It runs at memory speed; SHA-256 would cost as much as the training.
 */
uint64_t fed_digest(const float *values, size_t n);

/** XXH3-64 of bytes. It detects damaged bytes, such as a torn file. */
uint64_t fed_digest_bytes(const void *data, size_t len);

FED_API_END

#endif
