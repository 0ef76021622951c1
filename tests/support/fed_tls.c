/* A TLS server for tests, on GnuTLS: one thread, one connection at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"

enum { NAP_MS = 10, PATIENCE_S = 20, CHUNK = 16384 };

typedef struct talk {
    fed_tls *server;
    gnutls_session_t session;
    int fd;
    size_t body_at;
} talk;

uint8_t fed_tls_byte(size_t at) {
    return (uint8_t)(at * 31 + (at >> 8));
}

static void nap(const fed_tls *server, size_t ms) {
    const int64_t until = fed_clock_monotonic_ms() + (int64_t)ms;
    while (server->stop == 0 && fed_clock_monotonic_ms() < until) {
        fed_sleep_ms(NAP_MS);
    }
}

static size_t hear(const talk *t, void *dst, size_t cap) {
    ssize_t len = GNUTLS_E_AGAIN;
    while (t->server->stop == 0 && (len == GNUTLS_E_AGAIN || len == GNUTLS_E_INTERRUPTED)) {
        len = gnutls_record_recv(t->session, dst, cap);
    }
    return len > 0 ? (size_t)len : 0;
}

static bool say(const talk *t, const void *data, size_t len) {
    size_t said = 0;
    while (t->server->stop == 0 && said < len) {
        ssize_t n = gnutls_record_send(t->session, (const char *)data + said, len - said);
        if (n > 0) {
            said += (size_t)n;
        } else if (n != GNUTLS_E_AGAIN && n != GNUTLS_E_INTERRUPTED) {
            return false;
        }
    }
    return said == len;
}

static bool hear_head(talk *t) {
    char *head = t->server->head;
    size_t len = 0;
    t->body_at = 0;
    while (len + 1 < sizeof t->server->head && hear(t, head + len, 1) == 1) {
        head[++len] = '\0';
        if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0) {
            return true;
        }
    }
    return false;
}

static size_t announced(const fed_tls *server) {
    const char *at = strstr(server->head, "Content-Length: ");
    return at != NULL ? strtoull(at + strlen("Content-Length: "), NULL, 10) : 0;
}

static bool hear_body(talk *t, size_t size) {
    uint8_t chunk[CHUNK];
    size_t left = size != 0 ? size : announced(t->server);
    while (left > 0) {
        const size_t len = hear(t, chunk, left < CHUNK ? left : CHUNK);
        for (size_t k = 0; k < len; k++) {
            t->server->odd_bytes += chunk[k] != fed_tls_byte(t->body_at++);
        }
        t->server->body_bytes += len;
        left -= len;
        if (len == 0) {
            return false;
        }
    }
    return true;
}

static bool say_bytes(const talk *t, size_t size) {
    uint8_t chunk[CHUNK];
    for (size_t at = 0; at < size;) {
        size_t len = size - at < CHUNK ? size - at : CHUNK;
        for (size_t k = 0; k < len; k++) {
            chunk[k] = fed_tls_byte(at + k);
        }
        if (!say(t, chunk, len)) {
            return false;
        }
        at += len;
    }
    return true;
}

static bool drip(const talk *t, const char *text, size_t pause_ms) {
    for (; *text != '\0'; text++) {
        nap(t->server, pause_ms);
        if (!say(t, text, 1)) {
            return false;
        }
    }
    return true;
}

static bool drain(const talk *t) {
    uint8_t chunk[CHUNK];
    while (hear(t, chunk, sizeof chunk) > 0) {
    }
    return true;
}

static bool act(talk *t, const fed_step *step) {
    switch (step->act) {
    case FED_RECEIVE:
        return hear_head(t);
    case FED_RECEIVE_BODY:
        return hear_body(t, step->size);
    case FED_SEND:
        return say(t, step->text, step->size != 0 ? step->size : strlen(step->text));
    case FED_SEND_BYTES:
        return say_bytes(t, step->size);
    case FED_DRIP:
        return drip(t, step->text, step->size);
    case FED_WAIT:
        nap(t->server, step->size);
        return true;
    case FED_DRAIN:
        return drain(t);
    case FED_CUT:
        return false;
    case FED_END:
        (void)gnutls_bye(t->session, GNUTLS_SHUT_WR);
        return false;
    }
    return false;
}

static const fed_step *script_of(const fed_tls *server, unsigned connection) {
    unsigned last = 0;
    while (last + 1 < FED_TLS_SCRIPTS && server->options.scripts[last + 1] != NULL) {
        last++;
    }
    return server->options.scripts[connection < last ? connection : last];
}

static bool shake_hands(talk *t) {
    int code = GNUTLS_E_AGAIN;
    while (t->server->stop == 0 && code != 0 && gnutls_error_is_fatal(code) == 0) {
        code = gnutls_handshake(t->session);
    }
    if (code != 0 && code != GNUTLS_E_AGAIN) {
        (void)gnutls_alert_send_appropriate(t->session, code);
    }
    return code == 0;
}

static void start_session(talk *t) {
    fed_tls *server = t->server;
    assert_int_equal(gnutls_init(&t->session, GNUTLS_SERVER | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_priority_set(t->session, server->priority), 0);
    assert_int_equal(
        gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, server->credentials), 0);
    assert_int_equal(gnutls_session_ticket_enable_server(t->session, &server->ticket_key), 0);
    if (server->options.client_ca != NULL) {
        gnutls_certificate_server_set_request(t->session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert(t->session, NULL, 0);
    }
    gnutls_transport_set_int(t->session, t->fd);
}

static void talk_tls(talk *t, const fed_step *step) {
    start_session(t);
    if (shake_hands(t)) {
        t->server->handshakes++;
        t->server->resumed += gnutls_session_is_resumed(t->session) != 0;
        while (act(t, step)) {
            step++;
        }
    }
    gnutls_deinit(t->session);
}

static void serve_one(fed_tls *server, int fd) {
    const struct timeval pause = {.tv_usec = NAP_MS * 1000};
    talk t = {.server = server, .fd = fd};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &pause, sizeof pause), 0);
    const fed_step *script = script_of(server, server->connections++);
    if (server->options.mute) {
        nap(server, (size_t)PATIENCE_S * 1000);
    } else {
        talk_tls(&t, script);
    }
    close(fd);
}

static void *serve(void *user) {
    fed_tls *server = user;
    while (server->stop == 0) {
        struct pollfd door = {.fd = server->door, .events = POLLIN};
        if (poll(&door, 1, NAP_MS) > 0) {
            int fd = accept(server->door, NULL, NULL);
            if (fd >= 0) {
                serve_one(server, fd);
            }
        }
    }
    return NULL;
}

static void listen_at(fed_tls *server) {
    const uint16_t port = htons(server->options.port);
    struct sockaddr_in near = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 near6 = {.sin6_family = AF_INET6, .sin6_port = port};
    const int yes = 1;
    const char *at = server->options.bind != NULL ? server->options.bind : "127.0.0.1";
    bool six = inet_pton(AF_INET6, at, &near6.sin6_addr) == 1;
    struct sockaddr *address = six ? (struct sockaddr *)&near6 : (struct sockaddr *)&near;
    socklen_t len = six ? sizeof near6 : sizeof near;
    assert_true(six || inet_pton(AF_INET, at, &near.sin_addr) == 1);
    /* a program that the test starts must not keep the port */
    server->door = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->door >= 0);
    assert_int_equal(setsockopt(server->door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(server->door, address, len), 0);
    assert_int_equal(listen(server->door, 16), 0);
    assert_int_equal(getsockname(server->door, address, &len), 0);
    server->port = ntohs(six ? near6.sin6_port : near.sin_port);
}

static gnutls_datum_t datum(const fed_pem *pem) {
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)pem->text,
                            .size = (unsigned)strlen(pem->text)};
}

static void copy_script(const fed_step *script, fed_step own[FED_TLS_STEPS]) {
    size_t k = 0;
    do {
        assert_true(k < FED_TLS_STEPS);
        own[k] = script[k];
    } while (script[k].act != FED_END && script[k++].act != FED_CUT);
}

void fed_tls_open(fed_tls *server, const fed_tls_options *options) {
    memset(server, 0, sizeof *server);
    server->options = *options;
    for (size_t k = 0; k < FED_TLS_SCRIPTS && options->scripts[k] != NULL; k++) {
        copy_script(options->scripts[k], server->scripts[k]);
        server->options.scripts[k] = server->scripts[k];
    }
    const gnutls_datum_t cert = datum(&options->who->cert), key = datum(&options->who->key);
    assert_int_equal(gnutls_certificate_allocate_credentials(&server->credentials), 0);
    assert_int_equal(
        gnutls_certificate_set_x509_key_mem(server->credentials, &cert, &key, GNUTLS_X509_FMT_PEM),
        0);
    if (options->client_ca != NULL) {
        const gnutls_datum_t ca = datum(options->client_ca);
        assert_int_equal(
            gnutls_certificate_set_x509_trust_mem(server->credentials, &ca, GNUTLS_X509_FMT_PEM),
            1);
    }
    const char *priority =
        options->priority != NULL ? options->priority : "NORMAL:-VERS-ALL:+VERS-TLS1.3";
    assert_int_equal(gnutls_priority_init(&server->priority, priority, NULL), 0);
    assert_int_equal(gnutls_session_ticket_key_generate(&server->ticket_key), 0);
    listen_at(server);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

void fed_tls_close(fed_tls *server) {
    if (server->credentials == NULL) {
        return;
    }
    server->stop = 1;
    pthread_join(server->thread, NULL);
    close(server->door);
    gnutls_free(server->ticket_key.data);
    gnutls_priority_deinit(server->priority);
    gnutls_certificate_free_credentials(server->credentials);
    server->credentials = NULL;
}

static void join_hands(gnutls_session_t tls) {
    int done;
    do {
        done = gnutls_handshake(tls);
    } while (done < 0 && gnutls_error_is_fatal(done) == 0);
    assert_int_equal(done, 0);
}

static void ask_who(gnutls_session_t tls) {
    static const char request[] = "GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[1024];
    ssize_t len;
    assert_int_equal(gnutls_record_send(tls, request, sizeof request - 1), sizeof request - 1);
    do {
        len = gnutls_record_recv(tls, answer, sizeof answer);
    } while (len < 0 && gnutls_error_is_fatal((int)len) == 0);
    assert_true(len > 0);
    assert_memory_equal(answer, "HTTP/1.1 200", 12);
}

static void start_client(const fed_identity *who, gnutls_session_t *tls,
                         gnutls_certificate_credentials_t *credentials) {
    const gnutls_datum_t cert = datum(&who->cert), key = datum(&who->key);
    assert_int_equal(gnutls_certificate_allocate_credentials(credentials), 0);
    assert_true(
        gnutls_certificate_set_x509_key_mem(*credentials, &cert, &key, GNUTLS_X509_FMT_PEM) >= 0);
    assert_int_equal(gnutls_init(tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_priority_set_direct(*tls, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL), 0);
    assert_int_equal(gnutls_credentials_set(*tls, GNUTLS_CRD_CERTIFICATE, *credentials), 0);
}

bool fed_tls_visit(uint16_t port, const fed_identity *who, gnutls_datum_t *session) {
    gnutls_session_t tls;
    gnutls_certificate_credentials_t credentials;
    const int fd = fed_dial(port);
    start_client(who, &tls, &credentials);
    if (session->data != NULL) {
        assert_int_equal(gnutls_session_set_data(tls, session->data, session->size), 0);
        gnutls_free(session->data);
    }
    gnutls_transport_set_int(tls, fd);
    join_hands(tls);
    ask_who(tls);
    const bool resumed = gnutls_session_is_resumed(tls) != 0;
    assert_int_equal(gnutls_session_get_data2(tls, session), 0);
    gnutls_deinit(tls);
    gnutls_certificate_free_credentials(credentials);
    close(fd);
    return resumed;
}

static ssize_t seal_or_send(gnutls_transport_ptr_t transport, const void *bytes, size_t len) {
    fed_sealer *s = transport;
    if (!s->keeps) {
        return send(s->fd, bytes, len, MSG_NOSIGNAL);
    }
    fed_write_bytes(&s->sealed, bytes, len);
    return (ssize_t)len;
}

void fed_sealer_open(fed_sealer *s, uint16_t port, const fed_identity *who) {
    const int on = 1;
    *s = (fed_sealer){.fd = fed_dial(port)};
    assert_int_equal(setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    fed_writer_growing(&s->sealed);
    start_client(who, &s->tls, &s->credentials);
    gnutls_transport_set_ptr2(s->tls, (void *)(intptr_t)s->fd, s);
    gnutls_transport_set_push_function(s->tls, seal_or_send);
    join_hands(s->tls);
    s->keeps = true;
}

void fed_sealer_close(fed_sealer *s) {
    gnutls_deinit(s->tls);
    gnutls_certificate_free_credentials(s->credentials);
    fed_writer_free(&s->sealed);
    close(s->fd);
}

void fed_sealer_seal(fed_sealer *s, const void *bytes, size_t len) {
    for (size_t at = 0; at < len;) {
        const ssize_t n = gnutls_record_send(s->tls, (const uint8_t *)bytes + at, len - at);
        assert_true(n > 0);
        at += (size_t)n;
    }
}

void fed_sealer_add(fed_sealer *s, const char *words) {
    fed_sealer_seal(s, words, strlen(words));
}

void fed_sealer_bye(fed_sealer *s) {
    assert_int_equal(gnutls_bye(s->tls, GNUTLS_SHUT_WR), 0);
}

void fed_sealer_send(fed_sealer *s, size_t len) {
    fed_writer *sealed = &s->sealed;
    len = len < sealed->len ? len : sealed->len;
    assert_int_equal(send(s->fd, sealed->data, len, MSG_NOSIGNAL), len);
    memmove(sealed->data, sealed->data + len, sealed->len - len);
    sealed->len -= len;
}

void fed_sealer_receive(fed_sealer *s, const char *end, char *dst, size_t cap, int ms) {
    size_t len = 0;
    dst[0] = '\0';
    while (len + 1 < cap && strstr(dst, end) == NULL) {
        struct pollfd there = {.fd = s->fd, .events = POLLIN};
        if (gnutls_record_check_pending(s->tls) == 0 && poll(&there, 1, ms) == 0) {
            return;
        }
        const ssize_t n = gnutls_record_recv(s->tls, dst + len, cap - len - 1);
        if (n == 0 || (n < 0 && gnutls_error_is_fatal((int)n) != 0)) {
            return;
        }
        len += n > 0 ? (size_t)n : 0;
        dst[len] = '\0';
    }
}
