/* Tokens in, certificates out; and the table of devices. */
#include "fedserver/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/fedserver.h"

enum { HOUR_S = 3600, CERTIFICATE_DAYS = 730 };

/* -- devices -- */

void fedserver_devices_free(fedserver_devices *devices) {
    free(devices->items);
    free(devices->slots);
    *devices = (fedserver_devices){0};
}

/* A fingerprint is a SHA-256 already: any of its bytes are a good hash. */
static size_t slot_of(const fedserver_devices *devices, const uint8_t *fingerprint) {
    uint64_t hash;
    memcpy(&hash, fingerprint, sizeof hash);
    size_t mask = devices->slot_count - 1;
    size_t slot = (size_t)hash & mask;
    while (devices->slots[slot] != 0 && memcmp(devices->items[devices->slots[slot] - 1].fingerprint,
                                               fingerprint, FED_SHA256_SIZE) != 0) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

fedserver_device *fedserver_devices_find(const fedserver_devices *devices,
                                         const uint8_t fingerprint[FED_SHA256_SIZE]) {
    if (devices->count == 0) {
        return NULL;
    }
    uint32_t index = devices->slots[slot_of(devices, fingerprint)];
    return index == 0 ? NULL : &devices->items[index - 1];
}

/* Twice the room; the hash table stays at most half full. */
static fed_status devices_grow(fedserver_devices *devices) {
    size_t cap = devices->cap == 0 ? 64 : devices->cap * 2;
    fedserver_device *items = realloc(devices->items, cap * sizeof *items);
    FED_REQUIRE(items != NULL, FED_ENOMEM);
    devices->items = items;
    uint32_t *slots = calloc(cap * 2, sizeof *slots);
    FED_REQUIRE(slots != NULL, FED_ENOMEM);
    free(devices->slots);
    devices->slots = slots;
    devices->slot_count = cap * 2;
    devices->cap = cap;
    for (size_t k = 0; k < devices->count; k++) {
        devices->slots[slot_of(devices, devices->items[k].fingerprint)] = (uint32_t)k + 1;
    }
    return FED_OK;
}

fed_status fedserver_devices_add(fedserver_devices *devices, const fedserver_device *device) {
    if (devices->count == devices->cap) {
        FED_TRY(devices_grow(devices));
    }
    devices->items[devices->count] = *device;
    devices->slots[slot_of(devices, device->fingerprint)] = (uint32_t)++devices->count;
    return FED_OK;
}

/* -- tokens -- */

void fedserver_token_hash(const char *token, uint8_t hash[FED_SHA256_SIZE]) {
    fed_sha256(token, strlen(token), hash);
}

/* The store is asked for the hash, so its comparisons leak nothing of use about a token. */
static fed_status token_state(const fedserver_auth *auth, const char *token, int64_t now_ms,
                              uint8_t hash[FED_SHA256_SIZE], fedserver_enrolment *outcome,
                              fed_error *err) {
    if (token == NULL || token[0] == '\0') {
        *outcome = FEDSERVER_TOKEN_MISSING;
        return FED_OK;
    }
    fedserver_token_hash(token, hash);
    fedserver_token known;
    fed_error absent = {0};
    fed_status status = auth->store->token_find(auth->db, hash, &known, &absent);
    if (status == FED_ENOTFOUND) {
        *outcome = FEDSERVER_TOKEN_UNKNOWN;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    *outcome = known.used_ms != 0           ? FEDSERVER_TOKEN_USED
               : known.expires_ms <= now_ms ? FEDSERVER_TOKEN_EXPIRED
                                            : FEDSERVER_ENROLLED;
    return FED_OK;
}

/* -- enrolment -- */

/* The name in a certificate is for people: a device is known by its fingerprint. */
static void device_name(const char *request, char *name, size_t cap) {
    uint8_t digest[FED_SHA256_SIZE];
    char hex[17];
    fed_sha256(request, strlen(request), digest);
    fed_hex(digest, 8, hex);
    snprintf(name, cap, "device-%s", hex);
}

static fed_status issue(const fedserver_auth *auth, const uint8_t *request, size_t len,
                        int64_t now_ms, fed_pem *cert, fedserver_device *device,
                        fedserver_enrolment *outcome, fed_error *why) {
    fed_pem text;
    if (len == 0 || len >= sizeof text.text || memchr(request, 0, len) != NULL) {
        *outcome = FEDSERVER_REQUEST_MALFORMED;
        return fed_fail(why, FED_EFORMAT,
                        "the body must be a certificate request in PEM, of at most %zu bytes",
                        sizeof text.text - 1);
    }
    memcpy(text.text, request, len);
    text.text[len] = '\0';
    char name[32];
    device_name(text.text, name, sizeof name);
    int64_t now = now_ms / 1000;
    fed_cert_options options = {.purpose = FED_CERT_CLIENT,
                                .common_name = name,
                                .not_before = now - HOUR_S, /* for devices whose clock is behind */
                                .not_after = now + CERTIFICATE_DAYS * 24 * (int64_t)HOUR_S};
    fed_status status = fed_cert_issue(auth->ca_key, auth->ca_cert, text.text, &options, cert, why);
    if (status == FED_EFORMAT || status == FED_EAUTH) {
        *outcome = status == FED_EAUTH ? FEDSERVER_REQUEST_REFUSED : FEDSERVER_REQUEST_MALFORMED;
    }
    FED_TRY(status);
    *device = (fedserver_device){.enrolled_ms = now_ms, .expires_ms = options.not_after * 1000};
    return fed_cert_fingerprint(cert->text, device->fingerprint, why);
}

fed_status fedserver_enrol(const fedserver_auth *auth, const char *token, const uint8_t *request,
                           size_t len, int64_t now_ms, fedserver_enrolment *outcome, fed_pem *cert,
                           fed_error *why, fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_enrolment result;
    FED_TRY(token_state(auth, token, now_ms, hash, &result, err));
    if (result != FEDSERVER_ENROLLED) { /* no work for strangers */
        *outcome = result;
        return FED_OK;
    }
    fedserver_device device;
    fed_pem issued;
    fed_status status = issue(auth, request, len, now_ms, &issued, &device, &result, why);
    if (result != FEDSERVER_ENROLLED) {
        *outcome = result;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "a certificate can't be issued: %s", why->text);
    }
    FED_TRY(auth->store->token_use(auth->db, hash, now_ms, err));
    FED_TRY(auth->store->device_add(auth->db, &device, err));
    status = fedserver_devices_add(auth->devices, &device);
    if (status != FED_OK) {
        return fed_fail(err, status, "out of memory for one more device");
    }
    *cert = issued;
    *outcome = FEDSERVER_ENROLLED;
    return FED_OK;
}
