/* TLS 1.3 by mbedTLS 3.6, and the tasks that mbedTLS leaves to its callers: addresses in
 * certificates, tickets, sentences for failures. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/transports/mbedtls/tls.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/error.h>
#include <mbedtls/platform.h>
#include <mbedtls/psa_util.h>
#include <psa/crypto.h>

/** Does the certificate name this IP address? mbedTLS checks only a name that it also sends to the
 * server, and a client must not send an IP address as a name (RFC 6066, section 3). */
static bool names_address(const mbedtls_x509_crt *crt, const uint8_t *address, size_t len) {
    enum { IP_ADDRESS = MBEDTLS_ASN1_CONTEXT_SPECIFIC | 7 };
    for (const mbedtls_x509_sequence *at = &crt->subject_alt_names; at != NULL; at = at->next) {
        if (at->buf.tag == IP_ADDRESS && at->buf.len == len &&
            memcmp(at->buf.p, address, len) == 0) {
            return true;
        }
    }
    return false;
}

static int check_address(void *user, mbedtls_x509_crt *crt, int depth, uint32_t *flags) {
    const fedclient_tls *tls = user;
    if (depth == 0 && tls->address_len > 0 && !names_address(crt, tls->address, tls->address_len)) {
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    }
    return 0;
}

static int configure(fedclient_tls *tls) {
    static const uint16_t groups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
                                      MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
                                      MBEDTLS_SSL_IANA_TLS_GROUP_NONE};
    mbedtls_ssl_config *config = &tls->config;
    mbedtls_ssl_config_free(config);
    mbedtls_ssl_config_init(config);
    int code = mbedtls_ssl_config_defaults(
        config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);
    if (code != 0) {
        return code;
    }
    mbedtls_ssl_conf_min_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_max_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_groups(config, groups);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(config, &tls->ca, NULL);
    mbedtls_ssl_conf_verify(config, check_address, tls);
    mbedtls_ssl_conf_rng(config, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE);
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
        config, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
    return tls->identified ? mbedtls_ssl_conf_own_cert(config, &tls->own, &tls->key) : 0;
}

fed_status fedclient_tls_init(fedclient_tls *tls, const char *ca_pem,
                              const fedclient_transport_options *options) {
    tls->tcp.fd = -1;
    tls->tcp.options = options;
    mbedtls_ssl_init(&tls->ssl);
    mbedtls_ssl_config_init(&tls->config);
    mbedtls_ssl_session_init(&tls->ticket);
    mbedtls_x509_crt_init(&tls->ca);
    mbedtls_x509_crt_init(&tls->own);
    mbedtls_pk_init(&tls->key);
    FED_REQUIRE(psa_crypto_init() == PSA_SUCCESS, FED_EIO); /* repeated calls are harmless */
    FED_REQUIRE(
        mbedtls_x509_crt_parse(&tls->ca, (const unsigned char *)ca_pem, strlen(ca_pem) + 1) == 0,
        FED_EFORMAT);
    for (tls->ca_last = &tls->ca; tls->ca_last->next != NULL;) {
        tls->ca_last = tls->ca_last->next;
    }
    return configure(tls) == 0 ? FED_OK : FED_ENOMEM;
}

void fedclient_tls_free(fedclient_tls *tls) {
    fedclient_tls_close(tls);
    mbedtls_ssl_config_free(&tls->config);
    mbedtls_ssl_session_free(&tls->ticket);
    mbedtls_pk_free(&tls->key);
    mbedtls_x509_crt_free(&tls->own);
    mbedtls_x509_crt_free(&tls->ca);
}

/** Remove the CAs that came with the device's certificate from the trusted ones. */
static void forget_cas(fedclient_tls *tls) {
    mbedtls_x509_crt *first = tls->ca_last->next;
    tls->ca_last->next = NULL;
    if (first != NULL) {
        /* This frees the later certificates, and what the first one points to, but not the
         * first one itself. */
        mbedtls_x509_crt_free(first);
        mbedtls_free(first);
    }
}

static void forget_identity(fedclient_tls *tls) {
    forget_cas(tls);
    tls->identified = tls->has_ticket = false;
    mbedtls_ssl_session_free(&tls->ticket); /* a ticket is bound to the former identity */
    mbedtls_pk_free(&tls->key);
    mbedtls_x509_crt_free(&tls->own);
    mbedtls_ssl_session_init(&tls->ticket);
    mbedtls_pk_init(&tls->key);
    mbedtls_x509_crt_init(&tls->own);
}

static bool parse_identity(fedclient_tls *tls, const fed_pem *key, const fed_pem *cert) {
    return mbedtls_pk_parse_key(&tls->key, (const unsigned char *)key->text, strlen(key->text) + 1,
                                NULL, 0, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE) == 0 &&
           mbedtls_x509_crt_parse(&tls->own, (const unsigned char *)cert->text,
                                  strlen(cert->text) + 1) == 0 &&
           mbedtls_pk_check_pair(&tls->own.pk, &tls->key, mbedtls_psa_get_random,
                                 MBEDTLS_PSA_RANDOM_STATE) == 0;
}

fed_status fedclient_tls_identify(fedclient_tls *tls, const fed_pem *key, const fed_pem *cert) {
    fedclient_tls_close(tls);
    forget_identity(tls);
    tls->identified = key != NULL && parse_identity(tls, key, cert);
    if (tls->identified) { /* the certificates after the first one are trusted CAs, not presented */
        tls->ca_last->next = tls->own.next;
        tls->own.next = NULL;
    } else {
        forget_identity(tls);
    }
    FED_REQUIRE(configure(tls) == 0, FED_ENOMEM);
    return key == NULL || tls->identified ? FED_OK : FED_EAUTH;
}

/** Turn a failure of mbedTLS into a status, and into a sentence in tcp.problem. */
static fed_status fail(fedclient_tls *tls, const char *what, int code) {
    char *dst = tls->tcp.problem;
    const size_t cap = sizeof tls->tcp.problem;
    const uint32_t flags = mbedtls_ssl_get_verify_result(&tls->ssl);
    tls->refused = code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE;
    if (code == MBEDTLS_ERR_SSL_ALLOC_FAILED || code == MBEDTLS_ERR_X509_ALLOC_FAILED) {
        return FED_ENOMEM;
    }
    if (code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && flags != UINT32_MAX) {
        (void)mbedtls_x509_crt_verify_info(dst, cap, "", flags);
        dst[strcspn(dst, "\n")] = '\0';
        return FED_EAUTH;
    }
    if (tls->refused) {
        snprintf(dst, cap, "%s: the other side sent an alert of TLS", what);
    } else if (code == MBEDTLS_ERR_SSL_CONN_EOF || code == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        snprintf(dst, cap, "%s: the other side closed the connection", what);
    } else if (dst[0] == '\0') {
        char reason[100];
        mbedtls_strerror(code, reason, sizeof reason);
        snprintf(dst, cap, "%s: %s", what, reason);
    }
    return FED_ENET;
}

static bool wants_to_wait(int code) {
    return code == MBEDTLS_ERR_SSL_WANT_READ || code == MBEDTLS_ERR_SSL_WANT_WRITE;
}

static fed_status shake_hands(fedclient_tls *tls) {
    for (;;) {
        const int code = mbedtls_ssl_handshake(&tls->ssl);
        if (code == 0) {
            return FED_OK;
        }
        if (!wants_to_wait(code)) {
            return fail(tls, "no TLS 1.3 with this host", code);
        }
        FED_TRY(fedclient_tcp_wait(
            &tls->tcp, code == MBEDTLS_ERR_SSL_WANT_READ ? FEDCLIENT_TCP_IN : FEDCLIENT_TCP_OUT,
            INT64_MAX));
    }
}

static int prepare(fedclient_tls *tls) {
    int code = mbedtls_ssl_setup(&tls->ssl, &tls->config);
    if (code == 0) {
        code = mbedtls_ssl_set_hostname(&tls->ssl, tls->address_len == 0 ? tls->host : NULL);
    }
    if (code == 0 && tls->has_ticket && strcmp(tls->ticket_host, tls->host) == 0 &&
        strcmp(tls->ticket_port, tls->port) == 0) {
        code = mbedtls_ssl_set_session(&tls->ssl, &tls->ticket);
    }
    mbedtls_ssl_set_bio(&tls->ssl, &tls->tcp, fedclient_tcp_send, fedclient_tcp_receive, NULL);
    return code;
}

fed_status fedclient_tls_open(fedclient_tls *tls, const char *host, const char *port) {
    fedclient_tls_close(tls);
    snprintf(tls->host, sizeof tls->host, "%s", host);
    snprintf(tls->port, sizeof tls->port, "%s", port);
    tls->address_len = fedclient_tcp_address(host, tls->address);
    tls->refused = false;
    tls->tcp.problem[0] = '\0';
    FED_TRY(fedclient_tcp_connect(&tls->tcp, host, port));
    tls->open = true;
    tls->tcp.problem[0] = '\0'; /* forget the failure of an earlier address */
    const int code = prepare(tls);
    return code == 0 ? shake_hands(tls) : fail(tls, "TLS can't begin", code);
}

void fedclient_tls_close(fedclient_tls *tls) {
    if (tls->open) {
        (void)mbedtls_ssl_close_notify(&tls->ssl); /* may fail if it would have to wait */
    }
    fedclient_tcp_close(&tls->tcp);
    mbedtls_ssl_free(&tls->ssl);
    mbedtls_ssl_init(&tls->ssl);
    tls->open = false;
}

static void keep_ticket(fedclient_tls *tls) {
    mbedtls_ssl_session_free(&tls->ticket);
    mbedtls_ssl_session_init(&tls->ticket);
    tls->has_ticket = mbedtls_ssl_get_session(&tls->ssl, &tls->ticket) == 0;
    snprintf(tls->ticket_host, sizeof tls->ticket_host, "%s", tls->host);
    snprintf(tls->ticket_port, sizeof tls->ticket_port, "%s", tls->port);
}

/** If code reports a session ticket, keep it. Tickets may arrive at any time, even in a write. */
static bool took_ticket(fedclient_tls *tls, int code) {
    if (code == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
        keep_ticket(tls);
        return true;
    }
    return false;
}

fed_status fedclient_tls_write(fedclient_tls *tls, const void *src, size_t len, size_t *sent,
                               int *ways) {
    int n = 0;
    do {
        n = mbedtls_ssl_write(&tls->ssl, src, len);
    } while (took_ticket(tls, n));
    *sent = n > 0 ? (size_t)n : 0;
    *ways =
        n == MBEDTLS_ERR_SSL_WANT_READ ? FEDCLIENT_TCP_IN : FEDCLIENT_TCP_IN | FEDCLIENT_TCP_OUT;
    return n >= 0 || wants_to_wait(n) ? FED_OK : fail(tls, "the connection broke", n);
}

fed_status fedclient_tls_read(fedclient_tls *tls, void *dst, size_t cap, size_t *got, bool *ended) {
    int n = 0;
    do {
        n = mbedtls_ssl_read(&tls->ssl, dst, cap);
    } while (took_ticket(tls, n));
    *got = n > 0 ? (size_t)n : 0;
    *ended = n == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY;
    if (n == 0) {
        n = MBEDTLS_ERR_SSL_CONN_EOF;
    }
    return n > 0 || *ended || wants_to_wait(n) ? FED_OK : fail(tls, "the connection broke", n);
}
