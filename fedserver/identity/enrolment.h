/* Who may talk to the coordinator: one-time tokens, enrolment, renewal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ENROLMENT_H
#define FEDSERVER_ENROLMENT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/crypto.h"
#include "fed/error.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/stores/store.h"

/** What became of an enrolment or a renewal. The device's own faults are outcomes, not errors. */
typedef enum fedserver_enrolment {
    FEDSERVER_ENROLLED = 0,
    FEDSERVER_TOKEN_MISSING,
    FEDSERVER_TOKEN_UNKNOWN,
    FEDSERVER_TOKEN_USED,
    FEDSERVER_TOKEN_EXPIRED,
    FEDSERVER_TOKEN_WITHDRAWN,
    FEDSERVER_REQUEST_MALFORMED,
    FEDSERVER_REQUEST_REFUSED,
    FEDSERVER_KEY_KNOWN,      /* enrolment of a key that is enrolled */
    FEDSERVER_KEY_UNKNOWN,    /* renewal for one that is not */
    FEDSERVER_DEVICE_REVOKED, /* ... */
    FEDSERVER_DEVICE_EXPIRED  /* ... */
} fedserver_enrolment;

/** What enrolment works on. */
typedef struct fedserver_auth {
    const fedserver_store *store;
    void *db;
    fedserver_devices *devices; /* kept up to date; NULL: there is no list in this process */
    const fed_pem *ca_key, *ca_cert;
    int64_t life_s; /* of a certificate */
} fedserver_auth;

/** A certificate that was issued, and for which device. */
typedef struct fedserver_issued {
    fed_pem cert;
    fedserver_device device;
} fedserver_issued;

/** What a device sends in order to enrol; nothing of it is trusted. */
typedef struct fedserver_applicant {
    const char *token;      /* NULL: none */
    const char *name;       /* what it calls itself; NULL: nothing */
    const uint8_t *request; /* [len]: a certificate request, PEM */
    size_t len;
} fedserver_applicant;

/**
 * Issue a device's certificate for a token and a certificate request. The token's name goes before
 * the one that the device gives itself.
 * On ENROLLED the token is used up, the device is stored and *issued filled in, else nothing has
 * changed and *why says in a sentence what was wrong with the request.
 */
fed_status fedserver_enrol(const fedserver_auth *auth, const fedserver_applicant *applicant,
                           int64_t now_ms, fedserver_enrolment *outcome, fedserver_issued *issued,
                           fed_error *why, fed_error *err) FED_CHECKED;

/**
 * Issue a newer certificate for the key of an enrolled device. Who signs a request with that key is
 * the device: nothing else is asked for, and the certificate is of no use without the key.
 * The device stays the same one, with its lease and all that was counted of it; its old certificate
 * is good until its own end, so a lost answer costs no more than asking again.
 */
fed_status fedserver_renew(const fedserver_auth *auth, const uint8_t *request, size_t len,
                           int64_t now_ms, fedserver_enrolment *outcome, fedserver_issued *issued,
                           fed_error *why, fed_error *err) FED_CHECKED;

#endif
