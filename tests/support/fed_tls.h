/* A TLS server for tests, which does on each connection what a script says. */
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
    FED_END,       /* of the script: close in TLS's way */
    FED_HEAR,      /* a request's head */
    FED_HEAR_BODY, /* so many bytes of its body; 0: as many as its Content-Length says */
    FED_SAY,       /* this text */
    FED_SAY_BYTES, /* so many bytes of fed_tls_byte */
    FED_DRIP,      /* this text, a byte at a time with so many milliseconds before each */
    FED_WAIT,      /* so many milliseconds */
    FED_DRAIN,     /* hear everything until the other side closes */
    FED_CUT        /* close the socket, without TLS's way */
} fed_act;

typedef struct fed_step {
    fed_act act;
    const char *text;
    size_t size;
} fed_step;

enum { FED_TLS_SCRIPTS = 8, FED_TLS_STEPS = 16 };

typedef struct fed_tls_options {
    const fed_identity *who;
    const fed_pem *client_ca; /* it demands a certificate of that CA; NULL: none */
    const char *priority;     /* GnuTLS's; NULL: TLS 1.3 */
    const char *bind;         /* NULL: 127.0.0.1 */
    bool mute;                /* it accepts connections, and never says a word of TLS */
    /* The k-th connection's script; connections behind the last get that one again. */
    const fed_step *scripts[FED_TLS_SCRIPTS];
} fed_tls_options;

typedef struct fed_tls {
    fed_tls_options options;
    /* Its own copies: a script goes on where the test that gave it has ended. */
    fed_step scripts[FED_TLS_SCRIPTS][FED_TLS_STEPS];
    uint16_t port;
    int door;
    pthread_t thread;
    atomic_int stop;
    /* What it has seen: to be read when the client has its answer. */
    atomic_uint connections, handshakes, resumed;
    char head[20000];      /* the last one heard */
    uint64_t body_bytes;   /* of all requests */
    atomic_uint odd_bytes; /* of them, other than fed_tls_byte's */
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    gnutls_datum_t ticket_key;
} fed_tls;

void fed_tls_open(fed_tls *server, const fed_tls_options *options);
/** One that was never opened is closed already. */
void fed_tls_close(fed_tls *server);

/** The byte at that place of a test's body. */
uint8_t fed_tls_byte(size_t at);

#endif
