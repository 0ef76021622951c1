/* For tests: a TLS server that follows a script on each connection, a client that resumes TLS
 * sessions, and a client that sends TLS records in pieces of any size. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TLS_H
#define FED_TLS_H

#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed_curl.h"

typedef enum fed_act {
    FED_END, /* end of the script: close with TLS's close_notify */
    FED_RECEIVE,
    FED_RECEIVE_BODY, /* receive `size` bytes of the body; 0: as many as Content-Length says */
    FED_SEND,         /* send `size` bytes of the text; 0: all */
    FED_SEND_BYTES,   /* send `size` bytes of the series fed_tls_byte */
    FED_DRIP,         /* send the text byte by byte, and wait `size` ms before each */
    FED_WAIT,
    FED_DRAIN,
    FED_CUT /* close the socket without TLS's close_notify */
} fed_act;

typedef struct fed_step {
    fed_act act;
    const char *text;
    size_t size;
} fed_step;

enum { FED_TLS_SCRIPTS = 8, FED_TLS_STEPS = 16 };

typedef struct fed_tls_options {
    const fed_identity *who;
    const fed_pem *client_ca; /* the server demands a client certificate of this CA; NULL: none */
    const char *priority;     /* GnuTLS's priority string; NULL: TLS 1.3 */
    const char *bind;         /* NULL: 127.0.0.1 */
    uint16_t port;
    bool mute; /* the server accepts connections and sends nothing */
    /* The k-th connection gets the k-th script. Later connections get the last script again. */
    const fed_step *scripts[FED_TLS_SCRIPTS];
} fed_tls_options;

typedef struct fed_tls {
    fed_tls_options options;
    fed_step scripts[FED_TLS_SCRIPTS][FED_TLS_STEPS];
    uint16_t port;
    int door;
    pthread_t thread;
    atomic_int stop;
    /* Read these only after the client has its answer. */
    atomic_uint connections, handshakes, resumed;
    char head[20000];
    uint64_t body_bytes;
    atomic_uint odd_bytes; /* number of body bytes that are not those of fed_tls_byte */
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    gnutls_datum_t ticket_key;
} fed_tls;

void fed_tls_open(fed_tls *server, const fed_tls_options *options);
void fed_tls_close(fed_tls *server);

uint8_t fed_tls_byte(size_t at);

/** Connect to 127.0.0.1:port, send one request and receive the answer's head. *session is offered
 * for resumption ({NULL, 0}: none), and replaced by the new session. The caller frees it with
 * gnutls_free. Returns whether the session was resumed. */
bool fed_tls_visit(uint16_t port, const fed_identity *who, gnutls_datum_t *session);

/** A TLS client whose records can be made first, and sent later in pieces of any size. */
typedef struct fed_sealer {
    int fd;
    gnutls_session_t tls;
    gnutls_certificate_credentials_t credentials;
    bool keeps; /* true: records are appended to `sealed` instead of sent */
    fed_writer sealed;
} fed_sealer;

/** Connect to 127.0.0.1:port, and finish the TLS handshake. */
void fed_sealer_open(fed_sealer *s, uint16_t port, const fed_identity *who);
void fed_sealer_close(fed_sealer *s);

/** Make records of these bytes, of a string, or of TLS's close_notify. */
void fed_sealer_seal(fed_sealer *s, const void *bytes, size_t len);
void fed_sealer_add(fed_sealer *s, const char *words);
void fed_sealer_bye(fed_sealer *s);

/** Send the next `len` bytes of the records, or all that are left. */
void fed_sealer_send(fed_sealer *s, size_t len);

/** Receive text into dst until it contains `end`, the connection closes, or a wait lasts `ms`. */
void fed_sealer_receive(fed_sealer *s, const char *end, char *dst, size_t cap, int ms);

#endif
