/* SHA-256 and HMAC, by mbedTLS. Other hashes have their own file, as they need no mbedTLS. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/hash.h"

#include <string.h>

#include "common/security/mbedtls.h"

enum { BLOCK = 64 };

void fed_sha256(const void *data, size_t len, uint8_t digest[FED_SHA256_SIZE]) {
    /* Only a hardware driver that replaces the function can fail; this project uses none. */
    (void)mbedtls_sha256(data, len, digest, 0);
}

static mbedtls_sha256_context *context_of(fed_sha256_sum *sum) {
    _Static_assert(sizeof(mbedtls_sha256_context) <= sizeof sum->opaque, "fed/hash.h has room");
    return (mbedtls_sha256_context *)(void *)sum->opaque;
}

void fed_sha256_begin(fed_sha256_sum *sum) {
    mbedtls_sha256_init(context_of(sum));
    (void)mbedtls_sha256_starts(context_of(sum), 0);
}

void fed_sha256_add(fed_sha256_sum *sum, const void *data, size_t len) {
    if (len > 0) {
        (void)mbedtls_sha256_update(context_of(sum), data, len);
    }
}

void fed_sha256_end(fed_sha256_sum *sum, uint8_t digest[FED_SHA256_SIZE]) {
    (void)mbedtls_sha256_finish(context_of(sum), digest);
    mbedtls_sha256_free(context_of(sum));
}

/* Compute the SHA-256 of the key's block, each byte XORed with pad, and then data[len]. */
static void hash_after_key(const uint8_t key[BLOCK], uint8_t pad, const void *data, size_t len,
                           uint8_t digest[FED_SHA256_SIZE]) {
    uint8_t block[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        block[i] = key[i] ^ pad;
    }
    fed_sha256_sum sum;
    fed_sha256_begin(&sum);
    fed_sha256_add(&sum, block, BLOCK);
    fed_sha256_add(&sum, data, len);
    fed_sha256_end(&sum, digest);
    mbedtls_platform_zeroize(block, sizeof block);
}

void fed_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                     uint8_t digest[FED_SHA256_SIZE]) {
    uint8_t block[BLOCK] = {0};
    if (key_len > BLOCK) {
        fed_sha256(key, key_len, block);
    } else if (key_len > 0) {
        memcpy(block, key, key_len);
    }
    uint8_t inner[FED_SHA256_SIZE];
    hash_after_key(block, 0x36, data, len, inner);
    hash_after_key(block, 0x5c, inner, sizeof inner, digest);
    mbedtls_platform_zeroize(block, sizeof block);
}
