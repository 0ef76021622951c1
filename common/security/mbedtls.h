/* mbedTLS 2.28 and 3.6 under the names of 3.6. Include this file before any header of mbedTLS. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_COMMON_MBEDTLS_H
#define FED_COMMON_MBEDTLS_H

/* mbedTLS 3.6 has no function that reads a request's signature, or that writes a name part by
 * part. So private members are used. */
#define MBEDTLS_ALLOW_PRIVATE_ACCESS

#include <mbedtls/aes.h>
#include <mbedtls/ecdsa.h>
#include <mbedtls/error.h>
#include <mbedtls/gcm.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

#if MBEDTLS_VERSION_NUMBER < 0x021C0000 ||                                                         \
    (MBEDTLS_VERSION_NUMBER >= 0x03000000 && MBEDTLS_VERSION_NUMBER < 0x03060000) ||               \
    MBEDTLS_VERSION_NUMBER >= 0x04000000
#error "mbedTLS 2.28 or 3.6 is needed"
#endif

#if MBEDTLS_VERSION_MAJOR == 2

#define mbedtls_sha256        mbedtls_sha256_ret
#define mbedtls_sha256_starts mbedtls_sha256_starts_ret
#define mbedtls_sha256_update mbedtls_sha256_update_ret
#define mbedtls_sha256_finish mbedtls_sha256_finish_ret
#define mbedtls_pk_parse_key(key, text, len, password, password_len, draw, user)                   \
    mbedtls_pk_parse_key(key, text, len, password, password_len)

static inline int mbedtls_x509write_crt_set_serial_raw(mbedtls_x509write_cert *cert,
                                                       const unsigned char *serial, size_t len) {
    mbedtls_mpi number;
    mbedtls_mpi_init(&number);
    int code = mbedtls_mpi_read_binary(&number, serial, len);
    if (code == 0) {
        code = mbedtls_x509write_crt_set_serial(cert, &number);
    }
    mbedtls_mpi_free(&number);
    return code;
}

#endif

#endif
