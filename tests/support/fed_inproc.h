/* A device's transport to a coordinator in the same process, which can fail at any request. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_INPROC_H
#define FED_INPROC_H

#include "coordinator_fixture.h"
#include "fedclient/transport.h"

typedef struct fed_inproc {
    coordinator *c;
    fedclient_transport transport;
    uint8_t fingerprint[FED_SHA256_SIZE];
    uint64_t requests;
    uint64_t breaks_at;    /* number of the request that fails, counted from 0; UINT64_MAX: none */
    bool breaks_answering; /* true: the coordinator handles that request, but the answer is lost */
    /* Called before and after a request is handled; may be NULL. path: without the query. */
    void (*before)(void *user, const char *path, const uint8_t *body, size_t len);
    void (*after)(void *user, const char *path, const uint8_t *body, size_t len, int status,
                  const fed_writer *reply);
    void *user;
} fed_inproc;

void fed_inproc_open(fed_inproc *line, coordinator *c);

#endif
