/* A TLS server for tests, which does on each connection what a script says; a client that resumes
 * sessions; and one whose bytes travel as the test likes. */
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
    FED_END,          /* end of the script: close with TLS's close_notify */
    FED_RECEIVE,      /* receive a request's head */
    FED_RECEIVE_BODY, /* receive so many bytes of its body; 0: as many as its Content-Length says */
    FED_SEND,         /* send this text */
    FED_SEND_BYTES,   /* send so many bytes of fed_tls_byte */
    FED_DRIP,         /* send this text byte by byte, with so many milliseconds before each */
    FED_WAIT,         /* wait so many milliseconds */
    FED_DRAIN,        /* receive everything until the other side closes */
    FED_CUT           /* close the socket, without close_notify */
} fed_act;

typedef struct fed_step {
    fed_act act;
    const char *text;
    size_t size;
} fed_step;

enum { FED_TLS_SCRIPTS = 8, FED_TLS_STEPS = 16 };

typedef struct fed_tls_options {
    const fed_identity *who;
    const fed_pem *client_ca; /* the server demands a certificate of this CA; NULL: none */
    const char *priority;     /* GnuTLS's priority string; NULL: TLS 1.3 */
    const char *bind;         /* address to listen on; NULL: 127.0.0.1 */
    bool mute;                /* the server accepts connections, and never sends a TLS message */
    /* The k-th connection's script. Connections after the last script get the last one again. */
    const fed_step *scripts[FED_TLS_SCRIPTS];
} fed_tls_options;

typedef struct fed_tls {
    fed_tls_options options;
    /* The server's own copies: a script goes on after the test function that gave it has returned.
     */
    fed_step scripts[FED_TLS_SCRIPTS][FED_TLS_STEPS];
    uint16_t port;
    int door;
    pthread_t thread;
    atomic_int stop;
    /* What the server has seen. Read it after the client has its answer. */
    atomic_uint connections, handshakes, resumed;
    char head[20000];      /* the last head received */
    uint64_t body_bytes;   /* of all requests */
    atomic_uint odd_bytes; /* bytes of bodies that differ from fed_tls_byte's */
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    gnutls_datum_t ticket_key;
} fed_tls;

void fed_tls_open(fed_tls *server, const fed_tls_options *options);
/** Close a server. A server that was never opened counts as closed. */
void fed_tls_close(fed_tls *server);

/** The byte at this offset of a test's body. */
uint8_t fed_tls_byte(size_t at);

/** A visit to the server on 127.0.0.1:port: a handshake, one request, the answer's head. *session:
 * what the last visit left, or {NULL, 0}; the visit offers it, and replaces it by what it has got
 * itself. The caller ends it with gnutls_free. True: the session was resumed. */
bool fed_tls_visit(uint16_t port, const fed_identity *who, gnutls_datum_t *session);

/** A connection whose records the test makes first, and sends later, in pieces of any size. */
typedef struct fed_sealer {
    int fd;
    gnutls_session_t tls;
    gnutls_certificate_credentials_t credentials;
    bool keeps;        /* what the session sends goes into `sealed` */
    fed_writer sealed; /* records that are not sent */
} fed_sealer;

/** Connect to 127.0.0.1:port. The handshake is over when this returns. */
void fed_sealer_open(fed_sealer *s, uint16_t port, const fed_identity *who);
void fed_sealer_close(fed_sealer *s);

/** Make a record of these bytes (of more than 16 KiB several), or of TLS's close_notify. */
void fed_sealer_seal(fed_sealer *s, const void *bytes, size_t len);
void fed_sealer_add(fed_sealer *s, const char *words);
void fed_sealer_bye(fed_sealer *s);

/** Send the next so many bytes of what is sealed, at most all, as one segment. */
void fed_sealer_send(fed_sealer *s, size_t len);

/** Receive into dst until the text contains `end`, or the connection closes, or so many
 * milliseconds pass without a byte. */
void fed_sealer_receive(fed_sealer *s, const char *end, char *dst, size_t cap, int ms);

#endif
