/* A device's line to a coordinator in the test's own process. It can break at any request. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_INPROC_H
#define FED_INPROC_H

#include "coordinator_fixture.h"
#include "fedclient/transport.h"

typedef struct fed_inproc {
    coordinator *c;
    fedclient_transport transport;        /* use this one */
    uint8_t fingerprint[FED_SHA256_SIZE]; /* of the device, once it has a certificate */
    uint64_t requests;
    uint64_t breaks_at;    /* this request, counted from 0, fails; UINT64_MAX: none does */
    bool breaks_answering; /* that request is done, and its answer is lost */
    /* Called before a request arrives, and after it was done, with its path without the query.
     * NULL: not called. */
    void (*before)(void *user, const char *path, const uint8_t *body, size_t len);
    void (*after)(void *user, const char *path, const uint8_t *body, size_t len, int status,
                  const fed_writer *reply);
    void *user;
} fed_inproc;

void fed_inproc_open(fed_inproc *line, coordinator *c);

#endif
