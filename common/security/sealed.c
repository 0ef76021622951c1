/* Seal bytes for caches, and open them, with SHA-256 and AES-256 in counter mode. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/sealed.h"

#include <assert.h>
#include <string.h>

#include "common/security/mbedtls.h"

enum { BLOCK = 16 };

void fed_sealed_name(const uint8_t key[FED_SEALED_KEY], char name[FED_SEALED_NAME]) {
    uint8_t digest[FED_SHA256_SIZE];
    fed_sha256(key, FED_SEALED_KEY, digest);
    fed_hex(digest, sizeof digest, name);
}

/* Compute block k of the key stream. mbedTLS's own counter mode is missing in small builds. */
static int stream_block(mbedtls_aes_context *aes, uint64_t k, uint8_t stream[BLOCK]) {
    uint8_t counter[BLOCK] = {0};
    for (int i = BLOCK - 1; k > 0; i--) {
        counter[i] = (uint8_t)k;
        k >>= 8;
    }
    return mbedtls_aes_crypt_ecb(aes, MBEDTLS_AES_ENCRYPT, counter, stream);
}

static int apply_stream(mbedtls_aes_context *aes, uint64_t at, uint8_t *data, size_t len) {
    uint8_t stream[BLOCK];
    int code = 0;
    for (size_t begin = 0; begin < len && code == 0; begin += BLOCK) {
        const size_t n = len - begin < BLOCK ? len - begin : BLOCK;
        code = stream_block(aes, (at + begin) / BLOCK, stream);
        for (size_t i = 0; i < n; i++) {
            data[begin + i] ^= stream[i];
        }
    }
    mbedtls_platform_zeroize(stream, sizeof stream);
    return code;
}

fed_status fed_sealed_crypt(const uint8_t key[FED_SEALED_KEY], uint64_t at, uint8_t *data,
                            size_t len) {
    assert(at % BLOCK == 0);
    mbedtls_aes_context aes;
    mbedtls_aes_init(&aes);
    int code = mbedtls_aes_setkey_enc(&aes, key, 8 * FED_SEALED_KEY);
    if (code == 0) {
        code = apply_stream(&aes, at, data, len);
    }
    mbedtls_aes_free(&aes);
    return code == 0 ? FED_OK : FED_ENOMEM; /* only hardware drivers fail otherwise */
}

fed_status fed_sealed_open(const uint8_t key[FED_SEALED_KEY], uint8_t *data, size_t len) {
    uint8_t digest[FED_SHA256_SIZE];
    FED_TRY(fed_sealed_crypt(key, 0, data, len));
    fed_sha256(data, len, digest);
    return memcmp(digest, key, sizeof digest) == 0 ? FED_OK : FED_EFORMAT;
}
