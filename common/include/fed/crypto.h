/* Keys, certificate requests, certificates and random bytes, by mbedTLS. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CRYPTO_H
#define FED_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/hash.h"

FED_API_BEGIN

/*
 * Keys are ECDSA on P-256; certificates are X.509v3, signed with ECDSA-SHA256. Keys, requests and
 * certificates are PEM text, NUL-terminated. Serial numbers are 126 random bits. Thread-safe: no
 * shared state.
 */
enum { FED_PEM_SIZE = 4096 };

typedef struct fed_pem {
    char text[FED_PEM_SIZE];
} fed_pem;

/** What a certificate may be used for (extended key usage). */
typedef enum fed_cert_purpose { FED_CERT_SERVER = 1, FED_CERT_CLIENT = 2 } fed_cert_purpose;

/** Fill dst with bytes from the system's entropy source. */
fed_status fed_random(void *dst, size_t len) FED_CHECKED;

/** Make a new private key. */
fed_status fed_key_new(fed_pem *key, fed_error *err) FED_CHECKED;

/** Make a self-signed CA certificate for a key (CA:TRUE, keyCertSign). Validity in Unix seconds. */
fed_status fed_ca_new(const fed_pem *key, const char *common_name, int64_t not_before,
                      int64_t not_after, fed_pem *cert, fed_error *err) FED_CHECKED;

/** Make a certificate request, signed with key. */
fed_status fed_csr_new(const fed_pem *key, const char *common_name, fed_pem *csr,
                       fed_error *err) FED_CHECKED;

/** May a server's certificate name this host? A host is a DNS name, perhaps with '_' or a leading
 * "*.", or an IP address. An IPv6 address may have brackets. */
bool fed_host_is_valid(const char *host);

/** The fields of a certificate that a CA issues. */
typedef struct fed_cert_options {
    fed_cert_purpose purpose;
    const char *common_name; /* the request's own subject is ignored */
    /* FED_CERT_SERVER: DNS names and IP addresses, ended by NULL. FED_CERT_CLIENT: NULL. */
    const char *const *hosts;
    int64_t not_before, not_after; /* Unix seconds */
} fed_cert_options;

/**
 * Check a request and issue a certificate for its key. The check includes the signature, which
 * mbedTLS's parser does not check. Errors: FED_EFORMAT a malformed request; FED_EAUTH the signature
 * is wrong, or the key is not P-256.
 */
fed_status fed_cert_issue(const fed_pem *ca_key, const fed_pem *ca_cert, const char *csr_pem,
                          const fed_cert_options *options, fed_pem *cert,
                          fed_error *err) FED_CHECKED;

/** A CA's key and certificate, ready to issue certificates. It keeps tables of the curve, so each
 * further certificate takes two thirds of the time of fed_cert_issue. For one thread at a time. */
typedef struct fed_issuer fed_issuer;

/** Read a CA. Free it with fed_issuer_free, which wipes the key; NULL is allowed there. FED_EINVAL:
 * key and certificate do not belong together. */
fed_status fed_issuer_new(const fed_pem *ca_key, const fed_pem *ca_cert, fed_issuer **issuer,
                          fed_error *err) FED_CHECKED;
void fed_issuer_free(fed_issuer *issuer);

/** As fed_cert_issue. */
fed_status fed_issuer_issue(fed_issuer *issuer, const char *csr_pem,
                            const fed_cert_options *options, fed_pem *cert,
                            fed_error *err) FED_CHECKED;

/** Compute the SHA-256 of the certificate's DER: what openssl x509 -fingerprint -sha256 prints. */
fed_status fed_cert_fingerprint(const char *cert_pem, uint8_t digest[FED_SHA256_SIZE],
                                fed_error *err) FED_CHECKED;

/*
 * Compute the fingerprint of a key: SHA-256 of the public key's DER SubjectPublicKeyInfo. It is
 * the same for a private key, for a request signed with it, and for every certificate issued for
 * it. On the command line: openssl x509 -pubkey -noout | openssl pkey -pubin -outform DER |
 * sha256sum. FED_EFORMAT: the text is no key, request or certificate.
 */
fed_status fed_key_fingerprint(const fed_pem *key, uint8_t digest[FED_SHA256_SIZE],
                               fed_error *err) FED_CHECKED;
fed_status fed_csr_key_fingerprint(const char *csr_pem, uint8_t digest[FED_SHA256_SIZE],
                                   fed_error *err) FED_CHECKED;
fed_status fed_cert_key_fingerprint(const char *cert_pem, uint8_t digest[FED_SHA256_SIZE],
                                    fed_error *err) FED_CHECKED;

/** Return the times between which a certificate is valid, in Unix seconds. */
fed_status fed_cert_validity(const char *cert_pem, int64_t *not_before, int64_t *not_after,
                             fed_error *err) FED_CHECKED;

/** Overwrite a secret with zeros, also where the compiler sees that nobody reads them. */
void fed_wipe(void *secret, size_t len);

/** Compare secrets in a time that depends only on len. Returns 0 if they are equal. */
int fed_secret_compare(const void *a, const void *b, size_t len);

FED_API_END

#endif
