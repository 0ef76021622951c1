/* The coordinator on the network: HTTPS by libmicrohttpd, two listeners, one thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_H
#define FEDSERVER_HTTP_H

#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stdint.h>

#include "fed/api.h"
#include "fedserver/fedserver.h"

/** A flag that another thread, or a signal handler, sets. */
#ifdef __cplusplus
typedef std::atomic<int> fedserver_flag;
#else
typedef atomic_int fedserver_flag;
#endif

FED_API_BEGIN

/** Which of the two listeners to open: those that the server's role needs. */
typedef enum fedserver_doors {
    FEDSERVER_DOORS_BOTH = 0,
    FEDSERVER_DOOR_FRONT = 1,
    FEDSERVER_DOOR_DEVICES = 2
} fedserver_doors;

typedef struct fedserver_http_options {
    const char *bind;    /* address: "127.0.0.1", "0.0.0.0", "::" */
    uint16_t front_port; /* 0: any free one */
    uint16_t devices_port;
    /* With FEDSERVER_DOOR_FRONT, devices_port must be set, too: enrolment answers name it. */
    fedserver_doors doors;
    int front_socket; /* a listening socket in place of front_port; closed at the end; 0: none */
    /* A listening socket for the links of other coordinators with the same store, at the setup's
     * `address`. It is closed at the end. 0: this process serves alone. */
    int cluster_socket;
    /* How long a request waits here while no coordinator leads, if it may be sent to a leader
     * twice without harm; 0: 10 s. */
    uint32_t leader_wait_ms;
    uint32_t connection_limit; /* of each listener; 0: by how many files may be open */
    uint32_t requests_per_s;   /* limit of a device, a tenth of that of an address; 0: 100 */
    uint32_t connections;      /* connections that one device may have at a time; 0: 16 */
    /** Addresses of proxies, separated by commas. Each connection from a proxy begins with a PROXY
     * header, which names the client. NULL: there are no such proxies. */
    const char *proxies;
    /* Devices may resume their TLS sessions at other processes that set this too, and have the
     * same server.key and ca.pem. Whoever has server.key can then pretend to be a device that has
     * connected before. */
    bool shared_tickets;
    /** Called in each iteration of the loop, so several times a second, until *stop is set. NULL:
     * not wanted. */
    void (*tend)(void *user);
    fedserver_flag *reload;     /* becomes non-zero: read the certificates again. NULL: never */
    const fedserver_flag *stop; /* becomes non-zero: answer the held requests, finish, return */
    /** Called when the listeners are open, with their ports. NULL: not wanted. */
    void (*ready)(void *user, uint16_t front_port, uint16_t devices_port);
    void *user;
} fedserver_http_options;

/**
 * Serve until *stop. The devices' listener demands, in the handshake, a certificate of this
 * coordinator's CA for client use; the front asks for none. Requests are handled in batches. A
 * batch is one transaction. Once it has written, answers wait for its commit. After an error
 * nothing more is answered. Errors: FED_EBUSY port in use (says which), FED_EINVAL not an address
 * of this machine, FED_EAUTH not allowed to listen there; FED_EFORMAT a certificate file is
 * damaged; those of fedserver_begin and of fedserver_commit.
 */
fed_status fedserver_http_serve(fedserver *server, const fedserver_http_options *options,
                                const fed_log *log, fed_error *err) FED_CHECKED;

/** Does each listener that serves the directory answer, at the address where it serves? A listener
 * that was told to stop is not asked. FED_EIO: *err says which one does not. */
fed_status fedserver_http_health(const char *directory, fed_error *err) FED_CHECKED;

/** Open a listening socket, for `front_socket`. *port 0: any free port. Errors: as
 * fedserver_http_serve has for the port. */
fed_status fedserver_http_listen(const char *address, uint16_t *port, int *fd,
                                 fed_error *err) FED_CHECKED;

FED_API_END

#endif
