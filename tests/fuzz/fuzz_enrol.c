/* Fuzz the readers of certificate requests and of certificates, as PEM, or as DER that is converted
 * to PEM. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fed/bytes.h"
#include "fed/crypto.h"

static fed_pem ca_key, ca;

static void start(void) {
    fed_error err;
    if (ca_key.text[0] == '\0') {
        require(fed_key_new(&ca_key, &err) == FED_OK);
        require(fed_ca_new(&ca_key, "fuzz", 1, 4102444800, &ca, &err) == FED_OK);
    }
}

/* Write DER as PEM: base64 (RFC 4648) in lines of 64 characters, between BEGIN and END. */
static bool wrap(const char *what, const uint8_t *der, size_t len, fed_pem *pem) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fed_writer w;
    fed_writer_fixed(&w, pem->text, sizeof pem->text);
    fed_write_printf(&w, "-----BEGIN %s-----\n", what);
    for (size_t at = 0; at < len; at += 3) {
        uint32_t bits = (uint32_t)der[at] << 16;
        bits |= at + 1 < len ? (uint32_t)der[at + 1] << 8 : 0;
        bits |= at + 2 < len ? der[at + 2] : 0;
        for (unsigned k = 0; k < 4; k++) {
            const bool pad = at + k > len;
            fed_write_u8(&w, (uint8_t)(pad ? '=' : digits[bits >> (18 - 6 * k) & 63]));
        }
        if (at % 48 == 45) {
            fed_write_u8(&w, '\n');
        }
    }
    fed_write_printf(&w, "\n-----END %s-----\n", what);
    fed_write_u8(&w, 0);
    return w.status == FED_OK;
}

static void check_request(const fed_pem *csr) {
    const fed_cert_options options = {
        .purpose = FED_CERT_CLIENT, .common_name = "d", .not_before = 2, .not_after = 3};
    uint8_t asked[FED_SHA256_SIZE], certified[FED_SHA256_SIZE];
    fed_error err = {.status = FED_OK};
    fed_pem cert;
    const fed_status status = fed_csr_key_fingerprint(csr->text, asked, &err);
    if (fed_cert_issue(&ca_key, &ca, csr->text, &options, &cert, &err) != FED_OK) {
        return;
    }
    require(status == FED_OK);
    require(fed_cert_key_fingerprint(cert.text, certified, &err) == FED_OK);
    require(memcmp(asked, certified, sizeof asked) == 0);
}

static void check_certificate(const fed_pem *cert) {
    uint8_t digest[FED_SHA256_SIZE];
    int64_t from = 0, until = 0;
    fed_error err = {.status = FED_OK};
    (void)!fed_cert_key_fingerprint(cert->text, digest, &err);
    (void)!fed_cert_fingerprint(cert->text, digest, &err);
    (void)!fed_cert_validity(cert->text, &from, &until, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    fed_pem text;
    start();
    if (len < sizeof text.text && memchr(data, 0, len) == NULL) {
        memcpy(text.text, data, len);
        text.text[len] = '\0';
        check_request(&text);
        check_certificate(&text);
    }
    if (wrap("CERTIFICATE REQUEST", data, len, &text)) {
        check_request(&text);
    }
    if (wrap("CERTIFICATE", data, len, &text)) {
        check_certificate(&text);
    }
    return 0;
}
