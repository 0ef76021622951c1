/* A TCP connection over the system's sockets, on which no wait is without an end. */
#ifndef FEDCLIENT_TCP_H
#define FEDCLIENT_TCP_H

#include "fedclient/transports.h"

enum { FEDCLIENT_TCP_PROBLEM = 160 };

typedef struct fedclient_tcp {
    int fd; /* -1: none */
    const fedclient_transport_options *options;
    uint32_t patience_ms;                /* how long nothing may move */
    int64_t moved_ms;                    /* when something did, on the monotonic clock */
    char problem[FEDCLIENT_TCP_PROBLEM]; /* after a failure: what happened, for a person */
} fedclient_tcp;

/** Which way something may move. */
typedef enum fedclient_tcp_way { FEDCLIENT_TCP_IN = 1, FEDCLIENT_TCP_OUT = 2 } fedclient_tcp_way;

/**
 * Connect to the first of the host's addresses that answers. The system's resolver takes as long as
 * it takes; a connection as long as patience_ms.
 * Errors: FED_ENET, FED_ETIMEOUT, FED_ECANCELED; problem is then filled in.
 */
fed_status fedclient_tcp_connect(fedclient_tcp *tcp, const char *host,
                                 const char *port) FED_CHECKED;
void fedclient_tcp_close(fedclient_tcp *tcp);

/** Wait until one of these ways is open, at most until until_ms (INT64_MAX: no such end), which is
 * no failure. FED_ETIMEOUT: nothing has moved for patience_ms. FED_ECANCELED. */
fed_status fedclient_tcp_wait(fedclient_tcp *tcp, int ways, int64_t until_ms) FED_CHECKED;

/** FED_ECANCELED, if that is asked for. */
fed_status fedclient_tcp_stopped(fedclient_tcp *tcp) FED_CHECKED;

/* As mbedTLS calls them: bytes, or one of its codes. Neither waits. user: the fedclient_tcp. */
int fedclient_tcp_send(void *user, const unsigned char *src, size_t len);
int fedclient_tcp_receive(void *user, unsigned char *dst, size_t cap);

#endif
