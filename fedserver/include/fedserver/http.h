/* The coordinator on the network: HTTPS by libmicrohttpd, two listeners, one thread. */
#ifndef FEDSERVER_HTTP_H
#define FEDSERVER_HTTP_H

#include <stdatomic.h>
#include <stdint.h>

#include "fedserver/fedserver.h"

typedef struct fedserver_http_options {
    const char *bind;    /* address: "127.0.0.1", "0.0.0.0", "::" */
    uint16_t front_port; /* 0: any free one */
    uint16_t devices_port;
    uint32_t connection_limit; /* each listener; 0: as many as the process may open */
    const atomic_int *stop;    /* becomes non-zero: answer what is held, finish, return */
    /** Both listeners are up, on these ports. NULL: not wanted. */
    void (*ready)(void *user, uint16_t front_port, uint16_t devices_port);
    void *user;
} fedserver_http_options;

/**
 * Serve until *stop. The devices' listener demands, in the handshake, a certificate of this
 * coordinator's CA for client use; the front asks for none. Requests are handled in batches, one
 * transaction each, and answered after its commit; after an error nothing more is answered. Errors:
 * FED_EBUSY port in use (says which), FED_EINVAL not an address of this machine, FED_EAUTH not
 * allowed to listen there; FED_EFORMAT certificate files; those of fedserver_begin and of
 * fedserver_commit.
 */
fed_status fedserver_http_serve(fedserver *server, const fedserver_http_options *options,
                                const fed_log *log, fed_error *err) FED_CHECKED;

#endif
