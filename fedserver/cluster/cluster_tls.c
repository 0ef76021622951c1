/* Uses GnuTLS below a link, and accepts only a peer with the same key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/cluster/cluster_tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"

/* Both sides run this program, so a few algorithms are enough. */
static const char priority[] =
    "NONE:+VERS-TLS1.3:+CTYPE-X509:+COMP-NULL:+ECDHE-ECDSA:+AEAD:+AES-128-GCM:+AES-256-GCM:"
    "+CHACHA20-POLY1305:+GROUP-X25519:+GROUP-SECP256R1:+SIGN-ECDSA-SECP256R1-SHA256";

struct cluster_tls {
    gnutls_session_t session;
    /* SHA-256 of this side's public key, as DER of its SubjectPublicKeyInfo */
    uint8_t key[FED_SHA256_SIZE];
    bool stranger;
    bool partial; /* GnuTLS holds a record that the socket has not taken completely */
};

static bool key_of(const gnutls_datum_t *text, gnutls_x509_crt_fmt_t format,
                   uint8_t key[FED_SHA256_SIZE]) {
    gnutls_x509_crt_t leaf = NULL;
    size_t size = FED_SHA256_SIZE;
    if (gnutls_x509_crt_init(&leaf) < 0) {
        return false;
    }
    const bool read = gnutls_x509_crt_import(leaf, text, format) == 0 &&
                      gnutls_x509_crt_get_key_id(leaf, GNUTLS_KEYID_USE_SHA256, key, &size) == 0;
    gnutls_x509_crt_deinit(leaf);
    return read;
}

/* Called by GnuTLS during the handshake: accept only a certificate with this side's own key. The
 * handshake itself proves that the peer has the private key. */
static int verify_twin(gnutls_session_t session) {
    cluster_tls *tls = gnutls_session_get_ptr(session);
    uint8_t key[FED_SHA256_SIZE];
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    if (chain != NULL && count > 0 && key_of(&chain[0], GNUTLS_X509_FMT_DER, key) &&
        memcmp(key, tls->key, sizeof key) == 0) {
        return 0;
    }
    tls->stranger = true;
    return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

static bool start(cluster_tls *made, int fd, bool caller, void *credentials) {
    const unsigned side = caller ? GNUTLS_CLIENT : GNUTLS_SERVER;
    if (gnutls_init(&made->session, side | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) <
        0) {
        return false;
    }
    gnutls_session_set_ptr(made->session, made);
    gnutls_session_set_verify_function(made->session, verify_twin);
    gnutls_transport_set_int(made->session, fd);
    if (!caller) {
        gnutls_certificate_server_set_request(made->session, GNUTLS_CERT_REQUIRE);
    }
    return gnutls_priority_set_direct(made->session, priority, NULL) == 0 &&
           gnutls_credentials_set(made->session, GNUTLS_CRD_CERTIFICATE, credentials) == 0;
}

fed_status cluster_tls_open(int fd, bool caller, void *credentials, const char *certificate,
                            cluster_tls **tls, fed_error *err) {
    const gnutls_datum_t text = {.data = (unsigned char *)(uintptr_t)certificate,
                                 .size = (unsigned)strlen(certificate)};
    cluster_tls *made = calloc(1, sizeof *made);
    if (made == NULL || !start(made, fd, caller, credentials)) {
        cluster_tls_close(made);
        return fed_fail(err, FED_ENOMEM, "out of memory for a link to another coordinator");
    }
    if (!key_of(&text, GNUTLS_X509_FMT_PEM, made->key)) {
        cluster_tls_close(made);
        return fed_fail(err, FED_EFORMAT,
                        "server.pem can't be read as a certificate: put back the one that belongs "
                        "to server.key");
    }
    *tls = made;
    return FED_OK;
}

void cluster_tls_close(cluster_tls *tls) {
    if (tls != NULL && tls->session != NULL) {
        gnutls_deinit(tls->session);
    }
    free(tls);
}

static fed_status fail_of(const cluster_tls *tls, int result, fed_error *err) {
    if (result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED) {
        return FED_EBUSY;
    }
    if (tls->stranger) {
        return fed_fail(err, FED_EAUTH,
                        "the other coordinator does not hold this coordinator's key: give all "
                        "coordinators the same server.pem and server.key");
    }
    return fed_fail(
        err, FED_ENET,
        "the connection to the other coordinator ended (%s): see that it runs, and that "
        "the coordinators reach each other's --cluster ports",
        gnutls_strerror(result));
}

fed_status cluster_tls_handshake(cluster_tls *tls, fed_error *err) {
    int result = GNUTLS_E_WARNING_ALERT_RECEIVED;
    while (result == GNUTLS_E_WARNING_ALERT_RECEIVED) {
        result = gnutls_handshake(tls->session);
    }
    if (tls->stranger) { /* so that the peer need not wait for an answer */
        (void)gnutls_alert_send(tls->session, GNUTLS_AL_FATAL, GNUTLS_A_BAD_CERTIFICATE);
    }
    return result == 0 ? FED_OK : fail_of(tls, result, err);
}

fed_status cluster_tls_receive(cluster_tls *tls, uint8_t *dst, size_t cap, size_t *len,
                               fed_error *err) {
    const ssize_t got = gnutls_record_recv(tls->session, dst, cap);
    if (got > 0) {
        *len = (size_t)got;
        return FED_OK;
    }
    return got == 0 ? fed_fail(err, FED_ENET, "the other coordinator has closed the link")
                    : fail_of(tls, (int)got, err);
}

fed_status cluster_tls_send(cluster_tls *tls, const uint8_t *bytes, size_t len, size_t *sent,
                            fed_error *err) {
    const size_t size = len < CLUSTER_TLS_RECORD ? len : CLUSTER_TLS_RECORD;
    const ssize_t put = tls->partial ? gnutls_record_send(tls->session, NULL, 0)
                                     : gnutls_record_send(tls->session, bytes, size);
    tls->partial = put == GNUTLS_E_AGAIN || put == GNUTLS_E_INTERRUPTED;
    if (put < 0) {
        return fail_of(tls, (int)put, err);
    }
    *sent = (size_t)put;
    return FED_OK;
}

bool cluster_tls_writes(const cluster_tls *tls) {
    return tls->partial || gnutls_record_get_direction(tls->session) == 1;
}

void cluster_tls_bye(cluster_tls *tls) {
    (void)gnutls_bye(tls->session, GNUTLS_SHUT_WR); /* sent only if the socket is ready now */
}
