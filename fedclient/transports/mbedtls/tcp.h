/* A TCP connection, by the device's own network functions. Every wait has a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_TCP_H
#define FEDCLIENT_TCP_H

#include "fedclient/transports/transports.h"

/* tcp.c has these functions for POSIX sockets. A port without sockets compiles a file of its own in
 * that file's place, such as fedclient/examples/baremetal/lwip_tcp.c. */
enum { FEDCLIENT_TCP_PROBLEM = 160 };

typedef struct fedclient_tcp {
    int fd; /* the socket; -1: no connection */
    const fedclient_transport_options *options;
    uint32_t patience_ms;                /* longest time without a byte moving */
    int64_t moved_ms;                    /* when the last byte moved, on the monotonic clock */
    char problem[FEDCLIENT_TCP_PROBLEM]; /* after a failure: what happened, for a person */
} fedclient_tcp;

typedef enum fedclient_tcp_way { FEDCLIENT_TCP_IN = 1, FEDCLIENT_TCP_OUT = 2 } fedclient_tcp_way;

/** Try the host's addresses in turn, each for at most patience_ms, until one answers. The system's
 * resolver has its own limit. Errors, with a sentence in problem: FED_ENET, FED_ETIMEOUT,
 * FED_ECANCELED. */
fed_status fedclient_tcp_connect(fedclient_tcp *tcp, const char *host,
                                 const char *port) FED_CHECKED;
void fedclient_tcp_close(fedclient_tcp *tcp);

/** Wait until a byte can move in one of these directions. FED_OK, too, at until_ms (INT64_MAX: no
 * such limit). FED_ETIMEOUT: no byte has moved for patience_ms. FED_ECANCELED: the options'
 * `stopped` returned true. */
fed_status fedclient_tcp_wait(fedclient_tcp *tcp, int ways, int64_t until_ms) FED_CHECKED;

/** FED_ECANCELED: the options' `stopped` returned true. */
fed_status fedclient_tcp_stopped(fedclient_tcp *tcp) FED_CHECKED;

/** The bytes of the IP address "host" and their number, 4 or 16; 0: "host" is a name. */
size_t fedclient_tcp_address(const char *host, uint8_t address[16]);

/* Callbacks for mbedTLS, which do not wait. They return the number of bytes, or an error code of
 * mbedTLS. user: the fedclient_tcp. */
int fedclient_tcp_send(void *user, const unsigned char *src, size_t len);
int fedclient_tcp_receive(void *user, unsigned char *dst, size_t cap);

#endif
