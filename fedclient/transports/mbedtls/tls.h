/* TLS 1.3 by mbedTLS, over one TCP connection at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_TLS_H
#define FEDCLIENT_TLS_H

#include <mbedtls/ssl.h>

#include "fedclient/transports/mbedtls/tcp.h"

enum {
    FEDCLIENT_TLS_HOST = 254, /* most bytes of a host name, with a NUL */
    FEDCLIENT_TLS_PORT = 6
};

/** A connection, and the state that outlives connections. */
typedef struct fedclient_tls {
    fedclient_tcp tcp;
    mbedtls_ssl_context ssl;
    bool open;
    bool refused; /* the last failure was an alert from the other side */
    char host[FEDCLIENT_TLS_HOST], port[FEDCLIENT_TLS_PORT];
    uint8_t address[16]; /* the host, if it is an IP address */
    size_t address_len;
    mbedtls_ssl_config config;
    mbedtls_x509_crt ca, own;  /* ca: the caller's CAs, then the CAs that came with `own` */
    mbedtls_x509_crt *ca_last; /* the last of the caller's CAs; NULL: not read yet */
    mbedtls_pk_context key;
    bool identified;
    mbedtls_ssl_session ticket; /* for resuming a session, which costs both sides less */
    bool has_ticket;
    char ticket_host[FEDCLIENT_TLS_HOST], ticket_port[FEDCLIENT_TLS_PORT];
} fedclient_tls;

/** Begin with a zeroed *tls. Certificates of the CAs in ca_pem are trusted. options must outlive
 * *tls. Call fedclient_tls_free also after a failure. */
fed_status fedclient_tls_init(fedclient_tls *tls, const char *ca_pem,
                              const fedclient_transport_options *options) FED_CHECKED;
void fedclient_tls_free(fedclient_tls *tls);

/** Present this key and certificate from now on; both NULL: none. Certificates after the first are
 * CAs, trusted from now on. Closes the connection. FED_EAUTH: key and certificate can't be used;
 * no certificate is presented then. */
fed_status fedclient_tls_identify(fedclient_tls *tls, const fed_pem *key,
                                  const fed_pem *cert) FED_CHECKED;

/** Connect and do the TLS handshake. The other side's certificate must name the host. Errors: as
 * fedclient_tcp_connect; FED_ENOMEM; FED_EAUTH the other side's certificate can't be trusted;
 * FED_ENET others. Except for FED_ENOMEM tcp.problem then has a sentence, valid until the next
 * call. */
fed_status fedclient_tls_open(fedclient_tls *tls, const char *host, const char *port) FED_CHECKED;
void fedclient_tls_close(fedclient_tls *tls);

/** *sent: how many bytes were sent. If it is 0, wait until the socket is ready for one of *ways,
 * and call again with the same bytes. FED_ENET: the connection broke. */
fed_status fedclient_tls_write(fedclient_tls *tls, const void *src, size_t len, size_t *sent,
                               int *ways) FED_CHECKED;

/** Read bytes that have arrived; *got: how many. *got is 0 if none has arrived, or if the other
 * side has closed the TLS session: then *ended is true. FED_ENET: the connection broke. */
fed_status fedclient_tls_read(fedclient_tls *tls, void *dst, size_t cap, size_t *got,
                              bool *ended) FED_CHECKED;

#endif
