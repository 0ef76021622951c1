/* TLS between coordinators, on GnuTLS: both ends prove that they hold the coordinator's own key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_TLS_H
#define FEDSERVER_CLUSTER_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/**
 * TLS 1.3, and each side shows a certificate. The only key that is accepted is the coordinator's
 * own, that of server.pem: all coordinators that share a store have copies of it. So no
 * certificate of a device, and no other certificate of the coordinator's CA, opens a link.
 */
typedef struct cluster_tls cluster_tls;

/** Prepare TLS on a socket, which the caller still owns. credentials: a
 * gnutls_certificate_credentials_t with server.pem and server.key, which must outlive the session.
 * certificate: the text of server.pem. caller: this side connected; false: it accepted. Errors:
 * FED_ENOMEM; FED_EFORMAT: certificate is no certificate. */
fed_status cluster_tls_open(int fd, bool caller, void *credentials, const char *certificate,
                            cluster_tls **tls, fed_error *err) FED_CHECKED;
void cluster_tls_close(cluster_tls *tls); /* NULL is allowed */

/* The next three functions return FED_OK; FED_EBUSY: no bytes can move now, call again when the
 * socket is ready; FED_ENET: the connection has ended; FED_EAUTH: the peer has another key. */

fed_status cluster_tls_handshake(cluster_tls *tls, fed_error *err) FED_CHECKED;
/** Receive at most one TLS record. With FED_OK, *len is not 0. */
fed_status cluster_tls_receive(cluster_tls *tls, uint8_t *dst, size_t cap, size_t *len,
                               fed_error *err) FED_CHECKED;
/** Send bytes. After FED_EBUSY, the next call must begin with the same bytes, and may have more. */
fed_status cluster_tls_send(cluster_tls *tls, const uint8_t *bytes, size_t len, size_t *sent,
                            fed_error *err) FED_CHECKED;

/** Does the session wait for its socket to become writable, rather than readable? */
bool cluster_tls_writes(const cluster_tls *tls);

/** Tell the peer that no more bytes come. */
void cluster_tls_bye(cluster_tls *tls);

/** The most bytes of one record. */
enum { CLUSTER_TLS_RECORD = 16 * 1024 };

#endif
