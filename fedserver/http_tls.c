/* GnuTLS below libmicrohttpd: certificates checked early, devices verified in the handshake. */
#include "fedserver/http_tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "fed/file.h"
#include "fedserver/http_proxy.h"

enum { PEM_MOST = 64 * 1024 };

static fed_status read_pem(const char *directory, const char *name, char **text, fed_error *err) {
    char path[4096];
    const int len = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (len < 0 || (size_t)len >= sizeof path) {
        return fed_fail(err, FED_EINVAL, "the coordinator's directory has too long a name");
    }
    uint8_t *data = NULL;
    size_t size = 0;
    FED_TRY(fed_file_read(path, PEM_MOST, &data, &size, err));
    *text = (char *)data;
    return FED_OK;
}

static gnutls_datum_t datum(char *text) {
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

/* libmicrohttpd would only say that it can't start. */
static fed_status try_out(gnutls_certificate_credentials_t trial, const http_tls *tls,
                          const char *directory, fed_error *err) {
    const gnutls_datum_t ca = datum(tls->ca);
    const gnutls_datum_t certificate = datum(tls->certificate);
    const gnutls_datum_t key = datum(tls->key);
    if (gnutls_certificate_set_x509_trust_mem(trial, &ca, GNUTLS_X509_FMT_PEM) <= 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s/ca.pem holds no certificate: put back the one that init made",
                        directory);
    }
    const int fits =
        gnutls_certificate_set_x509_key_mem(trial, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (fits < 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: server.pem and server.key are not a certificate and its key (%s): "
                        "put back the ones that init made",
                        directory, gnutls_strerror(fits));
    }
    return FED_OK;
}

static fed_status check(const http_tls *tls, const char *directory, fed_error *err) {
    gnutls_certificate_credentials_t trial = NULL;
    if (gnutls_certificate_allocate_credentials(&trial) < 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the certificates");
    }
    const fed_status status = try_out(trial, tls, directory, err);
    gnutls_certificate_free_credentials(trial);
    return status;
}

fed_status http_tls_load(http_tls *tls, const char *directory, fed_error *err) {
    FED_TRY(read_pem(directory, "ca.pem", &tls->ca, err));
    FED_TRY(read_pem(directory, "server.pem", &tls->certificate, err));
    FED_TRY(read_pem(directory, "server.key", &tls->key, err));
    FED_TRY(check(tls, directory, err));
    gnutls_datum_t ticket_key = {NULL, 0};
    if (gnutls_session_ticket_key_generate(&ticket_key) < 0) {
        return fed_fail(err, FED_EIO, "the system has no random numbers for session tickets");
    }
    tls->ticket_key = ticket_key.data;
    tls->ticket_key_size = ticket_key.size;
    return FED_OK;
}

void http_tls_free(http_tls *tls) {
    if (tls->key != NULL) {
        gnutls_memset(tls->key, 0, strlen(tls->key));
    }
    if (tls->ticket_key != NULL) {
        gnutls_memset(tls->ticket_key, 0, tls->ticket_key_size);
    }
    gnutls_free(tls->ticket_key);
    free(tls->ca);
    free(tls->certificate);
    free(tls->key);
    *tls = (http_tls){0};
}

static void count(const http_tls_wire *wire, ssize_t result) {
    if (result >= 0 || (errno != EAGAIN && errno != EINTR)) {
        ++*wire->progress;
    }
}

/* Read the proxy's header once all of it is there. False: not yet, or never; errno says which. */
static bool take_proxy_header(http_tls_wire *wire) {
    uint8_t bytes[HTTP_PROXY_MOST];
    size_t used = 0;
    const ssize_t n = recv(wire->fd, bytes, sizeof bytes, MSG_PEEK);
    if (n < 0) {
        count(wire, n);
        return false;
    }
    const http_proxy_found found = http_proxy_read(bytes, (size_t)n, &used, &wire->address);
    if (n > 0 && found == HTTP_PROXY_MORE && (size_t)n < sizeof bytes) {
        errno = EAGAIN;
        return false;
    }
    count(wire, 0);
    wire->proxied = false;
    errno = ECONNRESET;
    return n > 0 && found == HTTP_PROXY_DONE && recv(wire->fd, bytes, used, 0) == (ssize_t)used;
}

static ssize_t pull(gnutls_transport_ptr_t transport, void *dst, size_t size) {
    http_tls_wire *wire = transport;
    if (wire->proxied && !take_proxy_header(wire)) {
        return -1;
    }
    const ssize_t n = recv(wire->fd, dst, size, 0);
    count(wire, n);
    if (n == 0) { /* in the middle of a record GnuTLS would take the end for "come again later" */
        errno = ECONNRESET;
        return -1;
    }
    return n;
}

static ssize_t push(gnutls_transport_ptr_t transport, const giovec_t *parts, int part_count) {
    const http_tls_wire *wire = transport;
    const struct msghdr message = {.msg_iov = (struct iovec *)parts,
                                   .msg_iovlen = (size_t)part_count};
    const ssize_t n = sendmsg(wire->fd, &message, MSG_NOSIGNAL);
    count(wire, n);
    return n;
}

enum { EXTENSION_PRE_SHARED_KEY = 41 };

static int note_extension(void *user, unsigned id, const unsigned char *data, unsigned size) {
    (void)data, (void)size;
    bool *found = user;
    *found = *found || id == EXTENSION_PRE_SHARED_KEY;
    return 0;
}

static bool offers_ticket(const gnutls_datum_t *hello) {
    bool found = false;
    (void)gnutls_ext_raw_parse(&found, note_extension, hello, GNUTLS_EXT_RAW_FLAG_TLS_CLIENT_HELLO);
    return found;
}

/* GnuTLS: a hello has come (GNUTLS_HOOK_PRE), or has been read and its key share computed. */
static int on_hello(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                    const gnutls_datum_t *hello) {
    (void)type;
    http_tls_wire *wire = gnutls_transport_get_ptr(session);
    bool admitted = true;
    if (incoming == 0) {
        return 0;
    }
    if (when == GNUTLS_HOOK_PRE && !wire->asked) { /* a second one answers our question: free */
        wire->asked = true;
        wire->ticket = offers_ticket(hello);
        admitted = wire->admit(wire->user, wire->ticket);
    } else if (when == GNUTLS_HOOK_POST && wire->ticket &&
               gnutls_session_is_resumed(session) == 0) {
        wire->ticket = false;
        admitted = wire->admit(wire->user, false);
    }
    return admitted ? 0 : GNUTLS_E_USER_ERROR;
}

void http_tls_attach(void *session, http_tls_wire *wire) {
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_BOTH,
                                       on_hello);
    gnutls_transport_set_ptr(session, wire);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_vec_push_function(session, push);
}

static void log_refused(const http_tls_wire *wire, unsigned status) {
    gnutls_datum_t reason = {NULL, 0};
    char address[HTTP_ADDRESS_TEXT];
    http_address_write(&wire->address, address);
    (void)gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &reason, 0);
    fed_logf(wire->log, FED_LOG_INFO, "%s: refused a client certificate. %s", address,
             reason.data != NULL ? (const char *)reason.data : "");
    gnutls_free(reason.data);
}

/* Runs inside the handshake: whoever fails here never reaches the parser of requests. */
static int verify_device(gnutls_session_t session) {
    unsigned char client_use[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = client_use};
    unsigned status = GNUTLS_CERT_INVALID;
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0) {
        return 0;
    }
    log_refused(gnutls_transport_get_ptr(session), status);
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL,
                            (status & GNUTLS_CERT_EXPIRED) != 0 ? GNUTLS_A_CERTIFICATE_EXPIRED
                                                                : GNUTLS_A_BAD_CERTIFICATE);
    return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

void http_tls_demand(void *session, const http_tls *tls) {
    const gnutls_datum_t ticket_key = {.data = tls->ticket_key, .size = tls->ticket_key_size};
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_function(session, verify_device);
    /* Tickets only where everybody is verified: one of an anonymous session would be resumed here
     * without a certificate. Failure costs no more than the resumption. */
    (void)gnutls_session_ticket_enable_server(session, &ticket_key);
}

void http_tls_identify(void *session, http_tls_identity *identity) {
    unsigned chain_len = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &chain_len);
    gnutls_x509_crt_t leaf = NULL;
    if (chain == NULL || chain_len == 0 || gnutls_x509_crt_init(&leaf) < 0) {
        return;
    }
    size_t size = sizeof identity->fingerprint;
    if (gnutls_x509_crt_import(leaf, &chain[0], GNUTLS_X509_FMT_DER) == 0 &&
        gnutls_x509_crt_get_key_id(leaf, GNUTLS_KEYID_USE_SHA256, identity->fingerprint, &size) ==
            0) {
        fed_sha256(chain[0].data, chain[0].size, identity->certificate);
        identity->expires_s = gnutls_x509_crt_get_expiration_time(leaf);
        identity->known = true;
    }
    gnutls_x509_crt_deinit(leaf);
}
