/* Enrols devices by their tokens, and renews their certificates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/identity/enrolment.h"

#include <stdio.h>
#include <string.h>

#include "fedserver/identity/certificates.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/identity/names.h"
#include "fedserver/identity/passes.h"

enum { HOUR_S = 3600 };

/* The store compares only hashes of tokens, so timing tells nothing useful about a token. */
static fed_status token_state(const fedserver_auth *auth, const char *token, int64_t now_ms,
                              uint8_t hash[FED_SHA256_SIZE], fedserver_token *known,
                              fedserver_enrolment *outcome, fed_error *err) {
    if (token == NULL || token[0] == '\0') {
        *outcome = FEDSERVER_TOKEN_MISSING;
        return FED_OK;
    }
    fedserver_token_hash(token, hash);
    fed_error absent = {0};
    fed_status status = auth->store->token_find(auth->db, hash, known, &absent);
    if (status == FED_ENOTFOUND) {
        *outcome = FEDSERVER_TOKEN_UNKNOWN;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    *outcome = known->used_ms != 0           ? FEDSERVER_TOKEN_USED
               : known->withdrawn_ms != 0    ? FEDSERVER_TOKEN_WITHDRAWN
               : known->expires_ms <= now_ms ? FEDSERVER_TOKEN_EXPIRED
                                             : FEDSERVER_ENROLLED;
    return FED_OK;
}

static fed_status read_request(const uint8_t *request, size_t len, fed_pem *csr,
                               uint8_t fingerprint[FED_SHA256_SIZE], fedserver_enrolment *outcome,
                               fed_error *why) {
    *outcome = FEDSERVER_REQUEST_MALFORMED;
    if (len == 0 || len >= sizeof csr->text || memchr(request, 0, len) != NULL) {
        return fed_fail(why, FED_EFORMAT,
                        "the body must be a certificate request in PEM, of at most %zu bytes",
                        sizeof csr->text - 1);
    }
    memcpy(csr->text, request, len);
    csr->text[len] = '\0';
    FED_TRY(fed_csr_key_fingerprint(csr->text, fingerprint, why));
    *outcome = FEDSERVER_ENROLLED;
    return FED_OK;
}

static fed_status find_device(const fedserver_auth *auth,
                              const uint8_t fingerprint[FED_SHA256_SIZE], fedserver_device *device,
                              fed_error *err) {
    fed_error absent = {0};
    *device = (fedserver_device){0};
    fed_status status = auth->store->device_find(auth->db, fingerprint, device, &absent);
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
}

/* Issue a certificate. Its name is only for people: a device is known by its key. */
static fed_status issue(const fedserver_auth *auth, const fed_pem *csr, int64_t now_ms,
                        fedserver_issued *issued, fedserver_enrolment *outcome, fed_error *why,
                        fed_error *err) {
    char hex[17];
    char name[32];
    fed_hex(issued->device.fingerprint, 8, hex);
    snprintf(name, sizeof name, "device-%s", hex);
    int64_t now = now_ms / 1000;
    /* the certificate is valid from this many seconds ago, because a device's clock may be slow */
    int64_t behind = auth->life_s < HOUR_S ? auth->life_s : HOUR_S;
    fed_cert_options options = {.purpose = FED_CERT_CLIENT,
                                .common_name = name,
                                .not_before = now - behind,
                                .not_after = now + auth->life_s};
    fed_status status = fed_issuer_issue(auth->issuer, csr->text, &options, &issued->cert, why);
    if (status == FED_EFORMAT || status == FED_EAUTH) {
        *outcome = status == FED_EAUTH ? FEDSERVER_REQUEST_REFUSED : FEDSERVER_REQUEST_MALFORMED;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "a certificate can't be issued: %s", why->text);
    }
    issued->device.expires_ms = options.not_after * 1000;
    return FED_OK;
}

fed_status fedserver_enrol(const fedserver_auth *auth, const fedserver_applicant *applicant,
                           int64_t now_ms, fedserver_enrolment *outcome, fedserver_issued *issued,
                           fed_error *why, fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_token known;
    fedserver_device *device = &issued->device;
    fed_pem csr;
    FED_TRY(token_state(auth, applicant->token, now_ms, hash, &known, outcome, err));
    /* Refuse before anything is signed, so that a request without a valid token costs little. */
    if (*outcome != FEDSERVER_ENROLLED) {
        return FED_OK;
    }
    uint8_t fingerprint[FED_SHA256_SIZE];
    if (read_request(applicant->request, applicant->len, &csr, fingerprint, outcome, why) !=
        FED_OK) {
        return FED_OK;
    }
    FED_TRY(find_device(auth, fingerprint, device, err));
    if (device->id != 0) {
        *outcome = FEDSERVER_KEY_KNOWN;
        return FED_OK;
    }
    *device = (fedserver_device){.enrolled_ms = now_ms,
                                 .role = known.role,
                                 .authority = fedserver_ca_id(auth->ca_cert->text)};
    memcpy(device->fingerprint, fingerprint, sizeof fingerprint);
    memcpy(device->tag, known.tag, sizeof device->tag);
    memcpy(device->name, known.name, sizeof device->name);
    if (known.name[0] == '\0' && applicant->name != NULL) {
        fedserver_text_take(device->name, sizeof device->name, applicant->name);
    }
    FED_TRY(issue(auth, &csr, now_ms, issued, outcome, why, err));
    if (*outcome == FEDSERVER_ENROLLED) {
        FED_TRY(auth->store->token_use(auth->db, hash, now_ms, err));
        FED_TRY(auth->store->device_add(auth->db, device, err));
    }
    return FED_OK;
}

fed_status fedserver_renew(const fedserver_auth *auth, const uint8_t *request, size_t len,
                           int64_t now_ms, fedserver_enrolment *outcome, fedserver_issued *issued,
                           fed_error *why, fed_error *err) {
    fedserver_device *device = &issued->device;
    fed_pem csr;
    uint8_t fingerprint[FED_SHA256_SIZE];
    if (read_request(request, len, &csr, fingerprint, outcome, why) != FED_OK) {
        return FED_OK;
    }
    FED_TRY(find_device(auth, fingerprint, device, err));
    if (device->id == 0 || device->revoked_ms != 0 || device->expires_ms <= now_ms) {
        *outcome = device->id == 0           ? FEDSERVER_KEY_UNKNOWN
                   : device->revoked_ms != 0 ? FEDSERVER_DEVICE_REVOKED
                                             : FEDSERVER_DEVICE_EXPIRED;
        return FED_OK;
    }
    const int64_t expired_ms = device->expires_ms;
    FED_TRY(issue(auth, &csr, now_ms, issued, outcome, why, err));
    if (*outcome != FEDSERVER_ENROLLED) {
        return FED_OK;
    }
    issued->longer_ms = device->expires_ms - expired_ms;
    FED_TRY(auth->store->device_renew(auth->db, device->id, device->expires_ms, err));
    fedserver_device *listed =
        auth->devices != NULL ? fedserver_devices_find(auth->devices, fingerprint) : NULL;
    if (listed != NULL) {
        listed->expires_ms = device->expires_ms;
    }
    return FED_OK;
}
