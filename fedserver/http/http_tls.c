/* TLS below libmicrohttpd, by GnuTLS: checks certificate files, and verifies devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_tls.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed/file.h"

enum { PEM_MOST = 64 * 1024 };

static fed_status read_pem(const char *directory, const char *name, char **text, fed_error *err) {
    char path[4096];
    const int len = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (len < 0 || (size_t)len >= sizeof path) {
        return fed_fail(err, FED_EINVAL, "the path of the coordinator's directory is too long");
    }
    size_t size = 0;
    return fed_file_read_text(path, PEM_MOST, text, &size, err);
}

static gnutls_datum_t datum(const char *text) {
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)text,
                            .size = text != NULL ? (unsigned)strlen(text) : 0};
}

static int64_t expiry_of(const char *pem) {
    gnutls_x509_crt_t leaf = NULL;
    const gnutls_datum_t text = datum(pem);
    int64_t expires_s = 0;
    if (gnutls_x509_crt_init(&leaf) < 0) {
        return 0;
    }
    if (gnutls_x509_crt_import(leaf, &text, GNUTLS_X509_FMT_PEM) == 0) {
        expires_s = gnutls_x509_crt_get_expiration_time(leaf);
    }
    gnutls_x509_crt_deinit(leaf);
    return expires_s;
}

/* Make the credentials here, because libmicrohttpd's error messages do not name the cause. */
static fed_status fill(http_tls_pair *pair, const char *directory, fed_error *err) {
    const gnutls_datum_t ca = datum(pair->ca);
    const gnutls_datum_t certificate = datum(pair->certificate);
    const gnutls_datum_t key = datum(pair->key);
    if (gnutls_certificate_allocate_credentials(
            (gnutls_certificate_credentials_t *)&pair->credentials) < 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the certificates");
    }
    if (gnutls_certificate_set_x509_trust_mem(pair->credentials, &ca, GNUTLS_X509_FMT_PEM) <= 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s/ca.pem holds no certificate: put back the one that init made",
                        directory);
    }
    const int fits = gnutls_certificate_set_x509_key_mem(pair->credentials, &certificate, &key,
                                                         GNUTLS_X509_FMT_PEM);
    if (fits < 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: %s.pem and %s.key are not a certificate and its key (%s): "
                        "put back the ones that belong together",
                        directory, pair->name, pair->name, gnutls_strerror(fits));
    }
    pair->expires_s = expiry_of(pair->certificate);
    return FED_OK;
}

static void free_pair(http_tls_pair *pair) {
    if (pair->key != NULL) {
        gnutls_memset(pair->key, 0, strlen(pair->key));
    }
    if (pair->credentials != NULL) {
        gnutls_certificate_free_credentials(pair->credentials);
    }
    free(pair->ca);
    free(pair->certificate);
    free(pair->key);
    free(pair);
}

static fed_status load_pair(http_tls_pair *pair, const char *directory, fedserver_listener kind,
                            const fed_log *log, fed_error *err) {
    enum { WIDE = 0037 }; /* mode bits that cause a warning; the group may read the key */
    char name[32], path[4096];
    struct stat file;
    snprintf(path, sizeof path, "%s/front.pem", directory);
    pair->name = kind == FEDSERVER_FRONT && access(path, F_OK) == 0 ? "front" : "server";
    FED_TRY(read_pem(directory, "ca.pem", &pair->ca, err));
    snprintf(name, sizeof name, "%s.pem", pair->name);
    FED_TRY(read_pem(directory, name, &pair->certificate, err));
    snprintf(name, sizeof name, "%s.key", pair->name);
    FED_TRY(read_pem(directory, name, &pair->key, err));
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (stat(path, &file) == 0 && (file.st_mode & WIDE) != 0) {
        fed_logf(log, FED_LOG_WARN,
                 "%s can be read or changed by others (mode %04o): chmod 0600 it, and if they may "
                 "be strangers make new certificates",
                 path, (unsigned)file.st_mode & 07777);
    }
    return fill(pair, directory, err);
}

static void forget_tickets(http_tls *tls) {
    if (tls->ticket_key != NULL) {
        gnutls_memset(tls->ticket_key, 0, tls->ticket_key_size);
    }
    gnutls_free(tls->ticket_key);
    tls->ticket_key = NULL;
}

/* Derive the ticket key from the server's private key by HKDF (RFC 5869), so that all processes
 * with the same files have the same key. ca.pem is included, so that no session of a removed CA is
 * resumed. */
static bool derive_key(const http_tls_pair *pair, gnutls_datum_t *key) {
    static const char purpose[] = "fedserver: session tickets, 1";
    const gnutls_datum_t text = datum(pair->key);
    const gnutls_datum_t salt = datum(purpose);
    const gnutls_datum_t ca = datum(pair->ca);
    uint8_t middle[FED_SHA256_SIZE];
    const gnutls_datum_t extracted = {middle, sizeof middle};
    gnutls_x509_privkey_t private_key = NULL;
    gnutls_datum_t der = {NULL, 0};
    const bool made =
        gnutls_x509_privkey_init(&private_key) == 0 &&
        gnutls_x509_privkey_import2(private_key, &text, GNUTLS_X509_FMT_PEM, NULL, 0) == 0 &&
        gnutls_x509_privkey_export2(private_key, GNUTLS_X509_FMT_DER, &der) == 0 &&
        gnutls_hkdf_extract(GNUTLS_MAC_SHA256, &der, &salt, middle) == 0 &&
        gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &extracted, &ca, key->data, key->size) == 0;
    gnutls_x509_privkey_deinit(private_key);
    if (der.data != NULL) {
        gnutls_memset(der.data, 0, der.size);
    }
    gnutls_free(der.data);
    gnutls_memset(middle, 0, sizeof middle);
    return made;
}

static fed_status set_ticket_key(http_tls *tls, const http_tls_pair *pair, fed_error *err) {
    gnutls_datum_t key = {tls->ticket_key, tls->ticket_key_size};
    if (key.data == NULL && gnutls_session_ticket_key_generate(&key) < 0) {
        return fed_fail(err, FED_EIO, "the system has no random numbers for session tickets");
    }
    tls->ticket_key = key.data;
    tls->ticket_key_size = key.size;
    if (tls->shared && !derive_key(pair, &key)) {
        return fed_fail(err, FED_EFORMAT,
                        "%s.key: no key for session tickets can be made of it; put back the key "
                        "that init made",
                        pair->name);
    }
    return FED_OK;
}

fed_status http_tls_load(http_tls *tls, const char *directory, fedserver_listener kind,
                         const fed_log *log, fed_error *err) {
    http_tls_pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the certificates");
    }
    const fed_status status = load_pair(pair, directory, kind, log, err);
    if (status != FED_OK) {
        free_pair(pair);
        return status;
    }
    pair->before = tls->pairs[kind];
    tls->pairs[kind] = pair;
    if (pair->before != NULL && strstr(pair->ca, pair->before->ca) == NULL) {
        /* A CA may have been removed: do not resume sessions of devices whose certificates this CA
         * signed. */
        forget_tickets(tls);
    }
    return kind == FEDSERVER_DEVICES ? set_ticket_key(tls, pair, err) : FED_OK;
}

void http_tls_free(http_tls *tls) {
    for (size_t k = 0; k < 2; k++) {
        for (http_tls_pair *pair = tls->pairs[k], *before = NULL; pair != NULL; pair = before) {
            before = pair->before;
            free_pair(pair);
        }
    }
    forget_tickets(tls);
    *tls = (http_tls){.ticket_key = NULL};
}

void http_tls_warn(const http_tls *tls, int64_t now_s, const fed_log *log) {
    enum { SOON_DAYS = 30, DAY_S = 24 * 3600 };
    for (size_t k = 0; k < 2; k++) {
        const http_tls_pair *pair = tls->pairs[k];
        const int64_t left_s = pair != NULL ? pair->expires_s - now_s : INT64_MAX;
        const char *renewal = "renew it (server.pem: fedserver cert renew), then send SIGHUP";
        if (left_s < 0) {
            fed_logf(log, FED_LOG_WARN,
                     "%s.pem has expired, so clients refuse this coordinator: %s", pair->name,
                     renewal);
        } else if (left_s < (int64_t)SOON_DAYS * DAY_S) {
            fed_logf(log, FED_LOG_WARN, "%s.pem expires in %d days: %s", pair->name,
                     (int)(left_s / DAY_S), renewal);
        }
    }
}

static ssize_t pull(gnutls_transport_ptr_t transport, void *dst, size_t size) {
    return http_wire_pull(((http_tls_gate *)transport)->wire, dst, size);
}

static ssize_t push(gnutls_transport_ptr_t transport, const giovec_t *parts, int part_count) {
    return http_wire_push(((http_tls_gate *)transport)->wire, parts, part_count);
}

enum { EXTENSION_PRE_SHARED_KEY = 41 };

static int note_extension(void *user, unsigned id, const unsigned char *data, unsigned size) {
    (void)data, (void)size;
    bool *found = user;
    *found = *found || id == EXTENSION_PRE_SHARED_KEY;
    return 0;
}

/* Called by GnuTLS before it works on a client hello (GNUTLS_HOOK_PRE) and afterwards
 * (GNUTLS_HOOK_POST). Only then is it known whether the hello's ticket is valid. */
static int on_hello(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                    const gnutls_datum_t *hello) {
    (void)type;
    http_tls_gate *gate = gnutls_transport_get_ptr(session);
    bool admitted = true;
    if (incoming == 0) {
        return 0;
    }
    /* A second hello, which the server asks for to get another key share, is not counted. */
    if (when == GNUTLS_HOOK_PRE && !gate->asked) {
        gate->asked = true;
        (void)gnutls_ext_raw_parse(&gate->ticket, note_extension, hello,
                                   GNUTLS_EXT_RAW_FLAG_TLS_CLIENT_HELLO);
        admitted = gate->admit(gate->user, gate->ticket);
    } else if (when == GNUTLS_HOOK_POST && gate->ticket &&
               gnutls_session_is_resumed(session) == 0) {
        gate->ticket = false;
        admitted = gate->admit(gate->user, false);
    }
    return admitted ? 0 : GNUTLS_E_USER_ERROR;
}

/* Called by GnuTLS during the handshake, before any request is read. */
static int verify_device(gnutls_session_t session) {
    unsigned char client_use[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = client_use};
    unsigned status = GNUTLS_CERT_INVALID;
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0) {
        return 0;
    }
    http_tls_gate *gate = gnutls_transport_get_ptr(session);
    gate->refused = true;
    gnutls_datum_t reason = {NULL, 0};
    char address[HTTP_ADDRESS_TEXT];
    http_address_write(&gate->wire->address, address);
    (void)gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &reason, 0);
    fed_logf(gate->log, FED_LOG_INFO, "%s: refused a client certificate. %s", address,
             reason.data != NULL ? (const char *)reason.data : "");
    gnutls_free(reason.data);
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL,
                            (status & GNUTLS_CERT_EXPIRED) != 0 ? GNUTLS_A_CERTIFICATE_EXPIRED
                                                                : GNUTLS_A_BAD_CERTIFICATE);
    return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

void http_tls_attach(void *session, http_tls_gate *gate, const http_tls *tls,
                     fedserver_listener kind) {
    const gnutls_datum_t ticket_key = {.data = tls->ticket_key, .size = tls->ticket_key_size};
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_BOTH,
                                       on_hello);
    gnutls_transport_set_ptr(session, gate);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_vec_push_function(session, push);
    (void)gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->pairs[kind]->credentials);
    if (kind == FEDSERVER_DEVICES) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(session, verify_device);
        /* Give tickets only where every peer is verified: a ticket of the front could be resumed
         * here without a certificate. If enabling tickets fails, only resumption is lost. */
        (void)gnutls_session_ticket_enable_server(session, &ticket_key);
    }
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
        uint8_t id[64];
        size_t id_size = sizeof id;
        if (gnutls_x509_crt_get_authority_key_id(leaf, id, &id_size, NULL) == 0) {
            fed_reader r;
            fed_reader_init(&r, id, id_size);
            identity->authority = fed_read_u64(&r);
        }
        identity->known = true;
    }
    gnutls_x509_crt_deinit(leaf);
}
