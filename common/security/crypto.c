/* Keys, certificate requests and certificates, by mbedTLS. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for syscall */
#include "fed/crypto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "common/security/mbedtls.h"
#include "common/system/hosts.h"

#include <mbedtls/asn1write.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/x509_csr.h>

enum {
    SERIAL_BYTES = 16,
    COMMON_NAME_MAX = 64 /* X.520's limit */
};

static const int64_t LAST_SECOND = 253402300799; /* of the year 9999, X.509's last */

static fed_status fail_code(fed_error *err, fed_status status, const char *what, int code) {
    char reason[128];
    mbedtls_strerror(code, reason, sizeof reason);
    return fed_fail(err, status, "%s: %s", what, reason);
}

/* Get random bytes from the kernel's generator. Returns 0 if the system has none, such as Linux
 * before 3.17. */
static int ask_kernel(uint8_t *dst, size_t len) {
#ifdef SYS_getrandom
    while (len > 0) {
        const long got = syscall(SYS_getrandom, dst, len, 0);
        if (got < 0 && errno != EINTR) {
            return 0;
        }
        dst += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    return 1;
#else
    (void)dst;
    (void)len;
    return 0;
#endif
}

/* Get random bytes from mbedTLS, which asks a board's source or the kernel. */
static fed_status ask_mbedtls(uint8_t *bytes, size_t len) {
    mbedtls_entropy_context *source = malloc(sizeof *source); /* too large for a small stack */
    FED_REQUIRE(source != NULL, FED_ENOMEM);
    mbedtls_entropy_init(source);
    int code = 0;
    while (len > 0 && code == 0) {
        size_t wanted = len < MBEDTLS_ENTROPY_BLOCK_SIZE ? len : MBEDTLS_ENTROPY_BLOCK_SIZE;
        code = mbedtls_entropy_func(source, bytes, wanted);
        bytes += wanted;
        len -= wanted;
    }
    mbedtls_entropy_free(source);
    free(source);
    return code == 0 ? FED_OK : FED_EIO;
}

fed_status fed_random(void *dst, size_t len) {
    return ask_kernel(dst, len) ? FED_OK : ask_mbedtls(dst, len);
}

static int draw(void *user, unsigned char *dst, size_t len) {
    (void)user;
    return fed_random(dst, len) == FED_OK ? 0 : MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
}

void fed_wipe(void *secret, size_t len) {
    mbedtls_platform_zeroize(secret, len);
}

int fed_secret_compare(const void *a, const void *b, size_t len) {
    const volatile uint8_t *x = a, *y = b; /* volatile, so that the compiler adds no early exit */
    unsigned difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference |= (unsigned)(x[i] ^ y[i]);
    }
    return (int)difference;
}

static int is_p256(const mbedtls_pk_context *key) {
    return mbedtls_pk_get_type(key) == MBEDTLS_PK_ECKEY &&
           mbedtls_pk_ec(*key)->grp.id == MBEDTLS_ECP_DP_SECP256R1;
}

/* Allocate memory for a PEM text on the heap, since a device's stack is small. */
static fed_pem *pem_new(fed_error *err) {
    fed_pem *made = calloc(1, sizeof *made);
    if (made == NULL) {
        (void)fed_fail(err, FED_ENOMEM, "out of memory for a key or a certificate");
    }
    return made;
}

/* Copy the text to dst if code is 0. Then wipe it, as it may be a private key, and free it. */
static void pem_take(fed_pem *made, int code, fed_pem *dst) {
    if (code == 0) {
        *dst = *made;
    }
    mbedtls_platform_zeroize(made, sizeof *made);
    free(made);
}

fed_status fed_key_new(fed_pem *key, fed_error *err) {
    fed_pem *made = pem_new(err);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    int code = mbedtls_pk_setup(&pk, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (code == 0) {
        code = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(pk), draw, NULL);
    }
    if (code == 0) {
        code = mbedtls_pk_write_key_pem(&pk, (unsigned char *)made->text, sizeof made->text);
    }
    pem_take(made, code, key);
    mbedtls_pk_free(&pk);
    return code == 0 ? FED_OK : fail_code(err, FED_EIO, "can't make a key", code);
}

static fed_status read_key(mbedtls_pk_context *pk, const fed_pem *key, fed_error *err) {
    size_t len = strnlen(key->text, sizeof key->text);
    if (len == sizeof key->text) {
        return fed_fail(err, FED_EINVAL, "the private key's text has no NUL within its memory");
    }
    int code =
        mbedtls_pk_parse_key(pk, (const unsigned char *)key->text, len + 1, NULL, 0, draw, NULL);
    if (code != 0) {
        return fail_code(err, FED_EFORMAT, "can't read the private key (PEM)", code);
    }
    if (!is_p256(pk)) {
        return fed_fail(err, FED_EFORMAT, "the private key is not of curve P-256; make such a key");
    }
    return FED_OK;
}

/* Add a part of a name to a list, unchanged. mbedTLS's own function takes a text such as
 * "CN=a,O=b", which would need escapes that mbedTLS 2.28 does not know. */
static int add_name(mbedtls_asn1_named_data **names, const mbedtls_x509_buf *oid, int tag,
                    const unsigned char *value, size_t len) {
    mbedtls_asn1_named_data *name =
        mbedtls_asn1_store_named_data(names, (const char *)oid->p, oid->len, value, len);
    if (name == NULL) {
        return MBEDTLS_ERR_X509_ALLOC_FAILED;
    }
    name->val.tag = tag;
    return 0;
}

static fed_status add_common_name(mbedtls_asn1_named_data **names, const char *text,
                                  fed_error *err) {
    unsigned char oid_bytes[] = MBEDTLS_OID_AT_CN;
    mbedtls_x509_buf oid = {.p = oid_bytes, .len = sizeof oid_bytes - 1};
    size_t len = strnlen(text, COMMON_NAME_MAX + 1);
    if (len == 0 || len > COMMON_NAME_MAX) {
        return fed_fail(err, FED_EINVAL, "a certificate's common name has 1 to %d bytes",
                        COMMON_NAME_MAX);
    }
    int code = add_name(names, &oid, MBEDTLS_ASN1_UTF8_STRING, (const unsigned char *)text, len);
    return code == 0 ? FED_OK : fail_code(err, FED_ENOMEM, "can't set the common name", code);
}

static fed_status copy_names(mbedtls_asn1_named_data **names, const mbedtls_x509_name *from,
                             fed_error *err) {
    for (; from != NULL; from = from->next) {
        int code = add_name(names, &from->oid, from->val.tag, from->val.p, from->val.len);
        if (code != 0) {
            return fail_code(err, FED_ENOMEM, "can't set the issuer's name", code);
        }
    }
    return FED_OK;
}

static void format_time(int64_t unix_s, char text[16]) {
    time_t t = (time_t)unix_s;
    struct tm utc;
    memset(&utc, 0, sizeof utc);
    gmtime_r(&t, &utc);
    strftime(text, 16, "%Y%m%d%H%M%S", &utc);
}

/* Convert a certificate's time to Unix seconds. Years are counted from March on, so that a leap
 * day is the last day of its year. */
static int64_t unix_of(const mbedtls_x509_time *t) {
    int64_t year = t->mon > 2 ? t->year : t->year - 1;
    int64_t month = (t->mon + 9) % 12; /* 0 stands for March */
    int64_t day = (153 * month + 2) / 5 + t->day - 1;
    int64_t days = year * 365 + year / 4 - year / 100 + year / 400 + day - 719468;
    return ((days * 24 + t->hour) * 60 + t->min) * 60 + t->sec;
}

static int set_serial(mbedtls_x509write_cert *cert) {
    uint8_t bytes[SERIAL_BYTES];
    if (fed_random(bytes, sizeof bytes) != FED_OK) {
        return MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
    }
    bytes[0] = (bytes[0] & 0x3F) | 0x40; /* positive and without leading zeros, as DER requires */
    return mbedtls_x509write_crt_set_serial_raw(cert, bytes, sizeof bytes);
}

#define SET_EXTENSION(cert, oid, critical, der)                                                    \
    mbedtls_x509write_crt_set_extension(cert, oid, sizeof(oid) - 1, critical, der, sizeof(der))

/* Extensions: extended key usage, for which mbedTLS 2.28 has no function, and CA:TRUE, which
 * mbedTLS 2.28 does not mark as critical. */
static const unsigned char DER_CA[] = {0x30, 6, 0x01, 1, 0xFF, 0x02, 1, 0}; /* CA, pathlen 0 */
static const unsigned char DER_NOT_CA[] = {0x30, 0};
static const unsigned char DER_SERVER_AUTH[] = {0x30, 10, 0x06, 8, 0x2B, 6, 1, 5, 5, 7, 3, 1};
static const unsigned char DER_CLIENT_AUTH[] = {0x30, 10, 0x06, 8, 0x2B, 6, 1, 5, 5, 7, 3, 2};

static int set_ca_extensions(mbedtls_x509write_cert *cert) {
    int code = SET_EXTENSION(cert, MBEDTLS_OID_BASIC_CONSTRAINTS, 1, DER_CA);
    return code != 0 ? code
                     : mbedtls_x509write_crt_set_key_usage(cert, MBEDTLS_X509_KU_KEY_CERT_SIGN);
}

static int set_leaf_extensions(mbedtls_x509write_cert *cert, fed_cert_purpose purpose) {
    int code = SET_EXTENSION(cert, MBEDTLS_OID_BASIC_CONSTRAINTS, 1, DER_NOT_CA);
    if (code == 0) {
        code = mbedtls_x509write_crt_set_key_usage(cert, MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    }
    if (code == 0 && purpose == FED_CERT_SERVER) {
        code = SET_EXTENSION(cert, MBEDTLS_OID_EXTENDED_KEY_USAGE, 0, DER_SERVER_AUTH);
    }
    if (code == 0 && purpose == FED_CERT_CLIENT) {
        code = SET_EXTENSION(cert, MBEDTLS_OID_EXTENDED_KEY_USAGE, 0, DER_CLIENT_AUTH);
    }
    return code;
}

bool fed_host_is_valid(const char *host) {
    const char *const hosts[] = {host, NULL};
    uint8_t der[FED_HOSTS_DER];
    size_t len = 0;
    fed_error ignored = {0};
    return fed_hosts_write(hosts, der, &len, &ignored) == FED_OK;
}

static fed_status set_hosts(mbedtls_x509write_cert *cert, const char *const *hosts,
                            fed_error *err) {
    uint8_t der[FED_HOSTS_DER];
    size_t len = 0;
    FED_TRY(fed_hosts_write(hosts, der, &len, err));
    int code = mbedtls_x509write_crt_set_extension(
        cert, MBEDTLS_OID_SUBJECT_ALT_NAME, sizeof MBEDTLS_OID_SUBJECT_ALT_NAME - 1, 0, der, len);
    return code == 0 ? FED_OK : fail_code(err, FED_ENOMEM, "can't set the server's hosts", code);
}

typedef struct identity {
    const char *common_name;
    mbedtls_pk_context *key;
    const mbedtls_x509_name *issuer; /* NULL: self-signed */
    mbedtls_pk_context *issuer_key;
    int64_t not_before, not_after;
} identity;

static fed_status start_cert(mbedtls_x509write_cert *cert, const identity *id, fed_error *err) {
    if (id->not_before < 0 || id->not_after <= id->not_before || id->not_after > LAST_SECOND) {
        return fed_fail(
            err, FED_EINVAL,
            "a certificate of %s can't be valid from %lld to %lld (seconds since 1970): its "
            "end must come after its start, and before the year 10000",
            id->common_name, (long long)id->not_before, (long long)id->not_after);
    }
    mbedtls_x509write_crt_set_version(cert, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(cert, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(cert, id->key);
    mbedtls_x509write_crt_set_issuer_key(cert, id->issuer_key);
    FED_TRY(add_common_name(&cert->subject, id->common_name, err));
    FED_TRY(id->issuer == NULL ? add_common_name(&cert->issuer, id->common_name, err)
                               : copy_names(&cert->issuer, id->issuer, err));
    int code = set_serial(cert);
    if (code == 0) {
        char first[16], last[16];
        format_time(id->not_before, first);
        format_time(id->not_after, last);
        code = mbedtls_x509write_crt_set_validity(cert, first, last);
    }
    if (code == 0) {
        code = mbedtls_x509write_crt_set_subject_key_identifier(cert);
    }
    if (code == 0) {
        code = mbedtls_x509write_crt_set_authority_key_identifier(cert);
    }
    return code == 0 ? FED_OK : fail_code(err, FED_EIO, "can't make a certificate", code);
}

static fed_status sign_cert(mbedtls_x509write_cert *cert, fed_pem *dst, fed_error *err) {
    fed_pem *made = pem_new(err);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    int code =
        mbedtls_x509write_crt_pem(cert, (unsigned char *)made->text, sizeof made->text, draw, NULL);
    pem_take(made, code, dst);
    return code == 0 ? FED_OK : fail_code(err, FED_EIO, "can't sign the certificate", code);
}

fed_status fed_ca_new(const fed_pem *key, const char *common_name, int64_t not_before,
                      int64_t not_after, fed_pem *cert, fed_error *err) {
    mbedtls_pk_context pk;
    mbedtls_x509write_cert draft;
    mbedtls_pk_init(&pk);
    mbedtls_x509write_crt_init(&draft);
    identity id = {.common_name = common_name,
                   .key = &pk,
                   .issuer_key = &pk,
                   .not_before = not_before,
                   .not_after = not_after};
    fed_status status = read_key(&pk, key, err);
    if (status == FED_OK) {
        status = start_cert(&draft, &id, err);
    }
    if (status == FED_OK) {
        int code = set_ca_extensions(&draft);
        status = code == 0 ? sign_cert(&draft, cert, err)
                           : fail_code(err, FED_EIO, "can't make a CA certificate", code);
    }
    mbedtls_x509write_crt_free(&draft);
    mbedtls_pk_free(&pk);
    return status;
}

static fed_status read_cert(mbedtls_x509_crt *cert, const char *pem, fed_error *err) {
    int code = mbedtls_x509_crt_parse(cert, (const unsigned char *)pem, strlen(pem) + 1);
    return code == 0 ? FED_OK
                     : fail_code(err, FED_EFORMAT, "can't read the certificate (PEM)", code);
}

static fed_status sign_request(mbedtls_x509write_csr *draft, fed_pem *csr, fed_error *err) {
    fed_pem *made = pem_new(err);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    int code = mbedtls_x509write_csr_pem(draft, (unsigned char *)made->text, sizeof made->text,
                                         draw, NULL);
    pem_take(made, code, csr);
    return code == 0 ? FED_OK : fail_code(err, FED_EIO, "can't make a certificate request", code);
}

fed_status fed_csr_new(const fed_pem *key, const char *common_name, fed_pem *csr, fed_error *err) {
    mbedtls_pk_context pk;
    mbedtls_x509write_csr draft;
    mbedtls_pk_init(&pk);
    mbedtls_x509write_csr_init(&draft);
    fed_status status = read_key(&pk, key, err);
    if (status == FED_OK) {
        status = add_common_name(&draft.subject, common_name, err);
    }
    if (status == FED_OK) {
        mbedtls_x509write_csr_set_md_alg(&draft, MBEDTLS_MD_SHA256);
        mbedtls_x509write_csr_set_key(&draft, &pk);
        status = sign_request(&draft, csr, err);
    }
    mbedtls_x509write_csr_free(&draft);
    mbedtls_pk_free(&pk);
    return status;
}

static fed_status parse_request(mbedtls_x509_csr *csr, const char *pem, fed_error *err) {
    int code = mbedtls_x509_csr_parse(csr, (const unsigned char *)pem, strlen(pem) + 1);
    return code == 0 ? FED_OK
                     : fail_code(err, FED_EFORMAT,
                                 "can't read the certificate request (PEM, with a key of curve "
                                 "P-256)",
                                 code);
}

/* Check that the sender of the request has the private key. checker: of P-256, like the request's
 * key; its group keeps a table, which the first check makes. */
static int check_signature(const mbedtls_x509_csr *csr, mbedtls_ecdsa_context *checker) {
    unsigned char hash[MBEDTLS_MD_MAX_SIZE];
    const mbedtls_md_info_t *md = mbedtls_md_info_from_type(csr->sig_md);
    if (csr->sig_pk != MBEDTLS_PK_ECDSA || md == NULL || mbedtls_md_get_size(md) < 32) {
        return MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG; /* such as SHA-1 */
    }
    int code = mbedtls_ecp_copy(&checker->Q, &mbedtls_pk_ec(csr->pk)->Q);
    if (code == 0) {
        code = mbedtls_md(md, csr->cri.p, csr->cri.len, hash);
    }
    return code != 0 ? code
                     : mbedtls_ecdsa_read_signature(checker, hash, mbedtls_md_get_size(md),
                                                    csr->sig.p, csr->sig.len);
}

static fed_status read_request(mbedtls_x509_csr *csr, const char *pem,
                               mbedtls_ecdsa_context *checker, fed_error *err) {
    FED_TRY(parse_request(csr, pem, err));
    if (!is_p256(&csr->pk)) {
        return fed_fail(err, FED_EAUTH,
                        "the certificate request's key is not one of curve P-256; make such a key");
    }
    int code = check_signature(csr, checker);
    if (code != 0) {
        return fail_code(err, FED_EAUTH,
                         "the certificate request is not signed by its own key with ECDSA and "
                         "SHA-256 or better",
                         code);
    }
    return FED_OK;
}

static const mbedtls_ecp_point *public_of(const mbedtls_pk_context *key) {
    return &mbedtls_pk_ec(*key)->Q;
}

/* Read the CA's certificate and key, and compare their public halves. Checking that the private
 * half fits would cost as much as a signature, for each certificate. */
static fed_status read_ca(mbedtls_x509_crt *ca, mbedtls_pk_context *key, const fed_pem *key_pem,
                          const fed_pem *cert_pem, fed_error *err) {
    FED_TRY(read_key(key, key_pem, err));
    FED_TRY(read_cert(ca, cert_pem->text, err));
    if (!ca->ca_istrue || !is_p256(&ca->pk) ||
        mbedtls_ecp_point_cmp(public_of(&ca->pk), public_of(key)) != 0) {
        return fed_fail(err, FED_EINVAL,
                        "the CA's key and certificate do not belong together; give the pair that "
                        "was made together");
    }
    return FED_OK;
}

/* signer: the issuer's key, as one that signs with its own group. */
static fed_status issue(mbedtls_x509write_cert *draft, const identity *id,
                        mbedtls_pk_context *signer, const fed_cert_options *options, fed_pem *cert,
                        fed_error *err) {
    FED_TRY(start_cert(draft, id, err));
    if (options->purpose == FED_CERT_SERVER) {
        FED_TRY(set_hosts(draft, options->hosts, err));
    }
    int code = set_leaf_extensions(draft, options->purpose);
    if (code != 0) {
        return fail_code(err, FED_EIO, "can't make a certificate", code);
    }
    mbedtls_x509write_crt_set_issuer_key(draft, signer);
    return sign_cert(draft, cert, err);
}

/* A group keeps the table of the generator's multiples that its first multiplication makes: half of
 * the work. A key of type MBEDTLS_PK_ECKEY, as mbedTLS reads it, signs with a copy of its group,
 * which is soon forgotten; one of type MBEDTLS_PK_ECDSA signs with its own. */
struct fed_issuer {
    mbedtls_x509_crt ca;
    mbedtls_pk_context key;        /* MBEDTLS_PK_ECKEY, which mbedTLS can write */
    mbedtls_pk_context signer;     /* MBEDTLS_PK_ECDSA, the same key */
    mbedtls_ecdsa_context checker; /* of requests' signatures */
};

/* Set signer and checker. Returns mbedTLS's code. */
static int make_ready(fed_issuer *issuer) {
    int code = mbedtls_pk_setup(&issuer->signer, mbedtls_pk_info_from_type(MBEDTLS_PK_ECDSA));
    if (code == 0) {
        code =
            mbedtls_ecdsa_from_keypair(mbedtls_pk_ec(issuer->signer), mbedtls_pk_ec(issuer->key));
    }
    if (code == 0) {
        code = mbedtls_ecp_group_load(&issuer->checker.grp, MBEDTLS_ECP_DP_SECP256R1);
    }
    return code;
}

void fed_issuer_free(fed_issuer *issuer) {
    if (issuer != NULL) {
        mbedtls_ecdsa_free(&issuer->checker);
        mbedtls_pk_free(&issuer->signer);
        mbedtls_pk_free(&issuer->key);
        mbedtls_x509_crt_free(&issuer->ca);
        free(issuer);
    }
}

fed_status fed_issuer_new(const fed_pem *ca_key, const fed_pem *ca_cert, fed_issuer **issuer,
                          fed_error *err) {
    fed_issuer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a CA");
    }
    mbedtls_x509_crt_init(&made->ca);
    mbedtls_pk_init(&made->key);
    mbedtls_pk_init(&made->signer);
    mbedtls_ecdsa_init(&made->checker);
    fed_status status = read_ca(&made->ca, &made->key, ca_key, ca_cert, err);
    if (status == FED_OK) {
        const int code = make_ready(made);
        status = code == 0 ? FED_OK : fail_code(err, FED_ENOMEM, "can't prepare the CA", code);
    }
    if (status == FED_OK) {
        *issuer = made;
        return FED_OK;
    }
    fed_issuer_free(made);
    return status;
}

fed_status fed_issuer_issue(fed_issuer *issuer, const char *csr_pem,
                            const fed_cert_options *options, fed_pem *cert, fed_error *err) {
    if (options->purpose != FED_CERT_SERVER && options->purpose != FED_CERT_CLIENT) {
        return fed_fail(err, FED_EINVAL,
                        "a certificate's purpose must be FED_CERT_SERVER or FED_CERT_CLIENT");
    }
    mbedtls_x509_csr csr;
    mbedtls_x509write_cert draft;
    mbedtls_x509_csr_init(&csr);
    mbedtls_x509write_crt_init(&draft);
    identity id = {.common_name = options->common_name,
                   .key = &csr.pk,
                   .issuer = &issuer->ca.subject,
                   .issuer_key = &issuer->key,
                   .not_before = options->not_before,
                   .not_after = options->not_after};
    fed_status status = read_request(&csr, csr_pem, &issuer->checker, err);
    if (status == FED_OK) {
        status = issue(&draft, &id, &issuer->signer, options, cert, err);
    }
    mbedtls_x509write_crt_free(&draft);
    mbedtls_x509_csr_free(&csr);
    return status;
}

fed_status fed_cert_issue(const fed_pem *ca_key, const fed_pem *ca_cert, const char *csr_pem,
                          const fed_cert_options *options, fed_pem *cert, fed_error *err) {
    fed_issuer *issuer = NULL;
    FED_TRY(fed_issuer_new(ca_key, ca_cert, &issuer, err));
    const fed_status status = fed_issuer_issue(issuer, csr_pem, options, cert, err);
    fed_issuer_free(issuer);
    return status;
}

fed_status fed_cert_fingerprint(const char *cert_pem, uint8_t digest[FED_SHA256_SIZE],
                                fed_error *err) {
    mbedtls_x509_crt cert;
    mbedtls_x509_crt_init(&cert);
    fed_status status = read_cert(&cert, cert_pem, err);
    if (status == FED_OK) {
        fed_sha256(cert.raw.p, cert.raw.len, digest);
    }
    mbedtls_x509_crt_free(&cert);
    return status;
}

static fed_status hash_key(mbedtls_pk_context *key, uint8_t digest[FED_SHA256_SIZE],
                           fed_error *err) {
    unsigned char der[1024]; /* mbedTLS writes from the end of der backwards */
    int len = mbedtls_pk_write_pubkey_der(key, der, sizeof der);
    if (len < 0) {
        return fail_code(err, FED_EFORMAT, "can't write the public key", len);
    }
    fed_sha256(der + sizeof der - (size_t)len, (size_t)len, digest);
    return FED_OK;
}

fed_status fed_key_fingerprint(const fed_pem *key, uint8_t digest[FED_SHA256_SIZE],
                               fed_error *err) {
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    fed_status status = read_key(&pk, key, err);
    if (status == FED_OK) {
        status = hash_key(&pk, digest, err);
    }
    mbedtls_pk_free(&pk);
    return status;
}

fed_status fed_csr_key_fingerprint(const char *csr_pem, uint8_t digest[FED_SHA256_SIZE],
                                   fed_error *err) {
    mbedtls_x509_csr csr;
    mbedtls_x509_csr_init(&csr);
    fed_status status = parse_request(&csr, csr_pem, err);
    if (status == FED_OK) {
        status = hash_key(&csr.pk, digest, err);
    }
    mbedtls_x509_csr_free(&csr);
    return status;
}

fed_status fed_cert_key_fingerprint(const char *cert_pem, uint8_t digest[FED_SHA256_SIZE],
                                    fed_error *err) {
    mbedtls_x509_crt cert;
    mbedtls_x509_crt_init(&cert);
    fed_status status = read_cert(&cert, cert_pem, err);
    if (status == FED_OK) {
        status = hash_key(&cert.pk, digest, err);
    }
    mbedtls_x509_crt_free(&cert);
    return status;
}

fed_status fed_cert_validity(const char *cert_pem, int64_t *not_before, int64_t *not_after,
                             fed_error *err) {
    mbedtls_x509_crt cert;
    mbedtls_x509_crt_init(&cert);
    fed_status status = read_cert(&cert, cert_pem, err);
    if (status == FED_OK) {
        *not_before = unix_of(&cert.valid_from);
        *not_after = unix_of(&cert.valid_to);
    }
    mbedtls_x509_crt_free(&cert);
    return status;
}
