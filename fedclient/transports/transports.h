/* The table of transports. Each folder of transports/ defines one entry. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_TRANSPORTS_H
#define FEDCLIENT_TRANSPORTS_H

#include "fedclient/transport.h"

enum { FEDCLIENT_PATIENCE_MS = 30000 }; /* the default of patience_ms */

typedef struct fedclient_transport_kind {
    const char *name;
    /** The caller has checked options->ca_pem, and patience_ms is not 0. */
    fed_status (*open)(const fedclient_transport_options *options, fedclient_transport *transport,
                       fed_error *err);
} fedclient_transport_kind;

/** The longest time without a byte that this request waits for. */
static inline uint32_t fedclient_request_patience(const fedclient_transport_options *options,
                                                  const fedclient_request *request) {
    const uint32_t asked_ms = request->patience_ms;
    return asked_ms != 0 && asked_ms < options->patience_ms ? asked_ms : options->patience_ms;
}

#endif
