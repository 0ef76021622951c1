/* TLS 1.3 by mbedTLS over one TCP connection after the other. */
#ifndef FEDCLIENT_TLS_H
#define FEDCLIENT_TLS_H

#include <mbedtls/ssl.h>

#include "fedclient/transports/mbedtls/tcp.h"

enum {
    FEDCLIENT_TLS_HOST = 254, /* a name's most bytes, and a NUL */
    FEDCLIENT_TLS_PORT = 6
};

/** The two ends of a connection, and what lives longer than one. */
typedef struct fedclient_tls {
    fedclient_tcp tcp;
    mbedtls_ssl_context ssl;
    bool open;
    bool refused; /* the last failure was an alert of the other side's */
    /* The connection's other end. */
    char host[FEDCLIENT_TLS_HOST], port[FEDCLIENT_TLS_PORT];
    uint8_t address[16]; /* the host, where it is an IP address and no name */
    size_t address_len;
    /* Of all connections. */
    mbedtls_ssl_config config;
    mbedtls_x509_crt ca, own;  /* ca: the caller's, then those that came with `own` */
    mbedtls_x509_crt *ca_last; /* the last one of the caller's; NULL: not read yet */
    mbedtls_pk_context key;
    bool identified;
    mbedtls_ssl_session ticket; /* resuming a session costs less of both sides */
    bool has_ticket;
    char ticket_host[FEDCLIENT_TLS_HOST], ticket_port[FEDCLIENT_TLS_PORT];
} fedclient_tls;

/** Zero it first. ca_pem: only certificates of these CAs are trusted. options: the caller's, until
 * it is freed. fedclient_tls_free, whatever comes of it. */
fed_status fedclient_tls_init(fedclient_tls *tls, const char *ca_pem,
                              const fedclient_transport_options *options) FED_CHECKED;
void fedclient_tls_free(fedclient_tls *tls);

/** Present these from now on; both NULL: none. What is behind the first certificate are CAs,
 * trusted from now on. Closes the connection. FED_EAUTH: they can't be used, and none is presented.
 */
fed_status fedclient_tls_identify(fedclient_tls *tls, const fed_pem *key,
                                  const fed_pem *cert) FED_CHECKED;

/**
 * Connect and shake hands. The certificate must name the host.
 * Errors: those of fedclient_tcp_connect; FED_EAUTH the other side's certificate; FED_ENET others.
 * tcp.problem is filled in, and stays until the next call.
 */
fed_status fedclient_tls_open(fedclient_tls *tls, const char *host, const char *port) FED_CHECKED;
void fedclient_tls_close(fedclient_tls *tls);

/** Send some of it, *sent bytes: 0 where that would have to wait, for one of *ways; then call with
 * the same bytes again. FED_ENET: the connection broke. */
fed_status fedclient_tls_write(fedclient_tls *tls, const void *src, size_t len, size_t *sent,
                               int *ways) FED_CHECKED;

/** What has come, *got bytes: 0 where that would have to wait, or with *ended where the other side
 * has closed in TLS's way. FED_ENET: the connection broke. */
fed_status fedclient_tls_read(fedclient_tls *tls, void *dst, size_t cap, size_t *got,
                              bool *ended) FED_CHECKED;

#endif
