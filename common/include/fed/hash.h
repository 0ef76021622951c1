/* Hashes: SHA-256 for identities and secrets, a fast 64-bit digest for "is it the same model". */
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

/** Lower-case hex of src[len], terminated: dst holds 2 * len + 1 characters. */
void fed_hex(const uint8_t *src, size_t len, char *dst);

/** The bytes behind exactly 2 * len hex digits of either case; anything else is FED_EFORMAT. */
fed_status fed_unhex(const char *text, uint8_t *dst, size_t len) FED_CHECKED;

/**
 * XXH3-64 of the values' little-endian bytes: detects a model that went astray (D5), not a forger.
 * At memory speed, where SHA-256 would cost as much as training does.
 */
uint64_t fed_digest(const float *values, size_t n);

/** XXH3-64 of bytes: guards stored state against a torn or foreign file. */
uint64_t fed_digest_bytes(const void *data, size_t len);

FED_API_END

#endif
