/* What a folder of transports/ offers to the table. */
#ifndef FEDCLIENT_TRANSPORTS_H
#define FEDCLIENT_TRANSPORTS_H

#include "fedclient/transport.h"

enum { FEDCLIENT_PATIENCE_MS = 30000 }; /* the coordinator's own */

typedef struct fedclient_transport_kind {
    const char *name;
    /** options->ca_pem is known to be a certificate, patience_ms not to be 0. */
    fed_status (*open)(const fedclient_transport_options *options, fedclient_transport *transport,
                       fed_error *err);
} fedclient_transport_kind;

#endif
