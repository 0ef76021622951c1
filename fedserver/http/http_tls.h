/* TLS for the HTTP adapter, on GnuTLS: certificates, and the identity of peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_TLS_H
#define FEDSERVER_HTTP_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/hash.h"
#include "fed/log.h"
#include "fedserver/fedserver.h"
#include "fedserver/http/http_wire.h"

/*
 * TLS 1.3 only: no renegotiation, and a device's certificate is sent encrypted. GnuTLS computes a
 * key share before it knows the peer, so only two cheap groups are allowed. The devices' listener
 * verifies ECDSA with P-256 only, so that no peer can force the slow verification of a huge RSA
 * key. The front verifies no peer. It allows more signatures, because its own certificate may be
 * RSA.
 */
#define HTTP_TLS_PRIORITY                                                                          \
    "NONE:+VERS-TLS1.3:+CTYPE-X509:+COMP-NULL:+ECDHE-ECDSA:+ECDHE-RSA:+AEAD:+AES-128-GCM:"         \
    "+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-CCM:+GROUP-X25519:+GROUP-SECP256R1:"                 \
    "+SIGN-ECDSA-SECP256R1-SHA256"
#define HTTP_TLS_PRIORITY_FRONT                                                                    \
    HTTP_TLS_PRIORITY ":+SIGN-ECDSA-SECP384R1-SHA384:+SIGN-EDDSA-ED25519:"                         \
                      "+SIGN-RSA-PSS-RSAE-SHA256:+SIGN-RSA-PSS-RSAE-SHA384:"                       \
                      "+SIGN-RSA-PSS-RSAE-SHA512"

/** A certificate and its key, as PEM text and as GnuTLS credentials. */
typedef struct http_tls_pair {
    const char *name; /* such as "server", for server.pem and server.key */
    char *ca, *certificate, *key;
    void *credentials;            /* gnutls_certificate_credentials_t */
    int64_t expires_s;            /* Unix time */
    struct http_tls_pair *before; /* the pair loaded before; old sessions still use it */
} http_tls_pair;

/** The pairs of the listeners, by fedserver_listener, and the key of the session tickets. */
typedef struct http_tls {
    http_tls_pair *pairs[2]; /* NULL: not loaded */
    /* Derive the key of session tickets from server.key and ca.pem, so that tickets work at all
     * processes with the same files. False: the key is random. */
    bool shared;
    uint8_t *ticket_key;
    unsigned ticket_key_size;
} http_tls;

/**
 * Read a listener's pair, and ca.pem, and check that they can serve; new sessions use them from
 * then on. The front uses front.pem and front.key, for example from a public authority, where they
 * exist. Otherwise both listeners use server.pem and server.key. A key file that others may read
 * gets a warning in the log. If a CA has been removed from ca.pem, or, where tickets are shared,
 * ca.pem has changed, sessions from before are not resumed. If the files can't be read, or do not
 * match (FED_EFORMAT), the pair loaded before stays. The caller zeroes *tls first, except `shared`,
 * and ends it with http_tls_free, also after an error.
 */
fed_status http_tls_load(http_tls *tls, const char *directory, fedserver_listener kind,
                         const fed_log *log, fed_error *err) FED_CHECKED;
void http_tls_free(http_tls *tls);

/** Log a warning about certificates that have expired, or will expire within 30 days. */
void http_tls_warn(const http_tls *tls, int64_t now_s, const fed_log *log);

/** Decides which peer may complete its handshake. The gate must outlive the session. */
typedef struct http_tls_gate {
    http_wire *wire;
    bool refused;
    const fed_log *log;
    /** May the handshake go on? Called at the first client hello. ticket: the hello offers a
     * ticket. If the ticket is not valid, admit is called again with false. */
    bool (*admit)(void *user, bool ticket);
    void *user;
    bool asked, ticket; /* asked: admit was called; ticket: argument of its last call */
} http_tls_gate;

/** Set up a session that has not begun its handshake. session: a gnutls_session_t. The session uses
 * the certificate of the listener `kind`, moves its bytes through gate->wire, and calls
 * gate->admit. A device's handshake succeeds only with a certificate of the coordinator's CA, for
 * client use, valid now, or with a ticket from such a handshake. */
void http_tls_attach(void *session, http_tls_gate *gate, const http_tls *tls,
                     fedserver_listener kind);

typedef struct http_tls_identity {
    bool known;
    uint8_t fingerprint[FED_SHA256_SIZE]; /* SHA-256 of the public key's DER */
    uint8_t certificate[FED_SHA256_SIZE]; /* SHA-256 of the certificate's DER */
    uint64_t authority;                   /* first bytes of the CA's key id; 0: unknown */
    int64_t expires_s;                    /* Unix time */
} http_tls_identity;

/** Get the peer whose certificate was verified in this session's handshake or, if the session was
 * resumed, in its first one. */
void http_tls_identify(void *session, http_tls_identity *identity);

#endif
