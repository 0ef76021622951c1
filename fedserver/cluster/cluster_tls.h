/* TLS between coordinators, on GnuTLS: both ends prove that they hold the coordinator's own key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_TLS_H
#define FEDSERVER_CLUSTER_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/**
 * TLS 1.3, and each side shows a certificate. The only key that is let in is this coordinator's
 * own, that of server.pem: all coordinators beside each other have copies of it. So no certificate
 * of a device, and no other certificate of our CA, opens a link.
 */
typedef struct cluster_tls cluster_tls;

/** credentials: gnutls_certificate_credentials_t with server.pem and server.key; they must outlive
 * the session. certificate: server.pem as text. caller: this side has connected. The socket stays
 * the caller's. Errors: FED_ENOMEM; FED_EFORMAT: that is no certificate. */
fed_status cluster_tls_open(int fd, bool caller, void *credentials, const char *certificate,
                            cluster_tls **tls, fed_error *err) FED_CHECKED;
void cluster_tls_close(cluster_tls *tls); /* NULL is fine */

/* Each of these returns FED_OK; FED_EBUSY: nothing moves now, ask again when the socket is ready;
 * FED_ENET: it is over, and err says why; FED_EAUTH: the peer has another key. */

fed_status cluster_tls_handshake(cluster_tls *tls, fed_error *err) FED_CHECKED;
/** At most one record. *len 0 never comes with FED_OK. */
fed_status cluster_tls_receive(cluster_tls *tls, uint8_t *dst, size_t cap, size_t *len,
                               fed_error *err) FED_CHECKED;
/** After FED_EBUSY the same bytes, or more after them, must be given again. */
fed_status cluster_tls_send(cluster_tls *tls, const uint8_t *bytes, size_t len, size_t *sent,
                            fed_error *err) FED_CHECKED;

/** Does it wait until the socket takes bytes, rather than until some come? */
bool cluster_tls_writes(const cluster_tls *tls);

/** Say that no more comes. */
void cluster_tls_bye(cluster_tls *tls);

/** The most bytes of one record. */
enum { CLUSTER_TLS_RECORD = 16 * 1024 };

#endif
