/* Decides which devices may talk to the coordinator: one-time tokens, enrolment, renewal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ENROLMENT_H
#define FEDSERVER_ENROLMENT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/crypto.h"
#include "fed/error.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/stores/store.h"

/** The result of an enrolment or a renewal. Faults of the device are results, not errors. */
typedef enum fedserver_enrolment {
    FEDSERVER_ENROLLED = 0,
    FEDSERVER_TOKEN_MISSING,
    FEDSERVER_TOKEN_UNKNOWN,
    FEDSERVER_TOKEN_USED,
    FEDSERVER_TOKEN_EXPIRED,
    FEDSERVER_TOKEN_WITHDRAWN,
    FEDSERVER_REQUEST_MALFORMED,
    FEDSERVER_REQUEST_REFUSED,
    FEDSERVER_KEY_KNOWN,   /* enrolment: the key is enrolled already */
    FEDSERVER_KEY_UNKNOWN, /* renewal: the key is not enrolled */
    FEDSERVER_DEVICE_REVOKED,
    FEDSERVER_DEVICE_EXPIRED /* renewal: the last certificate has expired */
} fedserver_enrolment;

typedef struct fedserver_auth {
    const fedserver_store *store;
    void *db;
    fedserver_devices *devices; /* the devices in memory; NULL: this process keeps none */
    fed_issuer *issuer;         /* the CA, whose certificate is ca_cert */
    const fed_pem *ca_cert;
    int64_t life_s; /* how many seconds a certificate is valid */
} fedserver_auth;

typedef struct fedserver_issued {
    fed_pem cert;
    fedserver_device device;
    int64_t longer_ms; /* renewal: by how much the certificate outlives the one before */
} fedserver_issued;

/** The fields of a device's enrolment request, which are not trusted. */
typedef struct fedserver_applicant {
    const char *token;      /* NULL: none */
    const char *name;       /* the name that the device gives itself; NULL: none */
    const uint8_t *request; /* [len]: a certificate request, PEM */
    size_t len;
} fedserver_applicant;

/**
 * Issue a device's certificate for a token and a certificate request. If the token has a name for
 * the device, that name is used, else the name that the device gives itself. With the outcome
 * FEDSERVER_ENROLLED the token is used up, the device is stored, and *issued is set. Otherwise the
 * store has not changed. If the certificate request was at fault, *why says what was wrong with it.
 */
fed_status fedserver_enrol(const fedserver_auth *auth, const fedserver_applicant *applicant,
                           int64_t now_ms, fedserver_enrolment *outcome, fedserver_issued *issued,
                           fed_error *why, fed_error *err) FED_CHECKED;

/**
 * Issue a newer certificate for the key of an enrolled device. The request is signed with that
 * key, so it comes from the device, and no other proof is needed. The device keeps its lease and
 * its counted updates. Its old certificate stays valid until it expires, so after a lost answer
 * the device can ask again.
 */
fed_status fedserver_renew(const fedserver_auth *auth, const uint8_t *request, size_t len,
                           int64_t now_ms, fedserver_enrolment *outcome, fedserver_issued *issued,
                           fed_error *why, fed_error *err) FED_CHECKED;

#endif
