/* Connections of many devices in one thread, with GnuTLS and epoll. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 1024, CHUNK = 65536, EVENTS = 256, LATENCIES = 1 << 20 };

typedef enum state { CLOSED = 0, SHAKING, IDLE, SENDING, HEARING } state;

typedef struct peer {
    fed_load *load;
    state state;
    uint32_t watched;
    bool parked; /* the request was sent by fed_load_post */
    int fd;
    gnutls_session_t tls;
    gnutls_pcert_st cert;
    gnutls_privkey_t key;
    bool has_cert;
    double sent_s;
    fed_writer request;
    size_t sent;
    char head[HEAD];
    size_t head_len, body_len, heard_len;
    bool in_body;
    int status;
    uint8_t body[FED_LOAD_BODY];
    fed_load_ask ask;
    fed_load_heard heard;
    void *user;
} peer;

struct fed_load {
    int epoll;
    struct in_addr address;
    uint16_t port;
    const fed_pem *keys, *certs;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    peer *peers;
    size_t count, shaking;
    size_t due, parked; /* numbers of missing answers, to fed_load_run and to fed_load_post */
    size_t answers, failures;
    float *ms; /* response times */
    uint8_t chunk[CHUNK];
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gnutls_datum_t text_of(const char *pem) {
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
}

static bool take_cert(peer *p, const char *key, const char *cert) {
    const gnutls_datum_t key_text = text_of(key);
    const gnutls_datum_t cert_text = text_of(cert);
    if (gnutls_privkey_init(&p->key) < 0) {
        return false;
    }
    p->has_cert =
        gnutls_privkey_import_x509_raw(p->key, &key_text, GNUTLS_X509_FMT_PEM, NULL, 0) == 0 &&
        gnutls_pcert_import_x509_raw(&p->cert, &cert_text, GNUTLS_X509_FMT_PEM, 0) == 0;
    if (!p->has_cert) {
        gnutls_privkey_deinit(p->key);
    }
    return p->has_cert;
}

/* Parse a certificate only when the handshake asks for it, because parsed certificates take much
 * memory. */
static int hand_out(gnutls_session_t session, const gnutls_datum_t *authorities,
                    int authority_count, const gnutls_pk_algorithm_t *algorithms,
                    int algorithm_count, gnutls_pcert_st **cert, unsigned int *cert_count,
                    gnutls_privkey_t *key) {
    (void)authorities, (void)authority_count, (void)algorithms, (void)algorithm_count;
    peer *p = gnutls_session_get_ptr(session);
    const ptrdiff_t k = p - p->load->peers;
    if (!p->has_cert && !take_cert(p, p->load->keys[k].text, p->load->certs[k].text)) {
        return -1;
    }
    *cert = &p->cert;
    *cert_count = 1;
    *key = p->key;
    return 0;
}

void fed_load_toward(fed_load *load, const char *address) {
    if (inet_pton(AF_INET, address, &load->address) != 1) {
        abort();
    }
}

fed_load *fed_load_open(uint16_t port, const fed_pem *keys, const fed_pem *certs, size_t count) {
    fed_load *load = calloc(1, sizeof *load);
    if (load == NULL) {
        return NULL;
    }
    load->address.s_addr = htonl(INADDR_LOOPBACK);
    load->port = port;
    load->keys = keys;
    load->certs = certs;
    load->count = count;
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    load->peers = calloc(count, sizeof *load->peers);
    load->ms = malloc(LATENCIES * sizeof *load->ms);
    bool fits = load->epoll >= 0 && load->peers != NULL && load->ms != NULL &&
                gnutls_certificate_allocate_credentials(&load->credentials) == 0 &&
                gnutls_priority_init(&load->priority,
                                     "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:"
                                     "-GROUP-ALL:+GROUP-SECP256R1",
                                     NULL) == 0;
    if (!fits) {
        fed_load_close(load);
        return NULL;
    }
    gnutls_certificate_set_retrieve_function2(load->credentials, hand_out);
    return load;
}

static void forget_cert(peer *p) {
    if (p->has_cert) {
        gnutls_pcert_deinit(&p->cert);
        gnutls_privkey_deinit(p->key);
        p->has_cert = false;
    }
}

static size_t *awaited(fed_load *load, const peer *p) {
    return p->parked ? &load->parked : &load->due;
}

static void hang_up(fed_load *load, peer *p) {
    if (p->state == CLOSED) {
        return;
    }
    load->shaking -= p->state == SHAKING;
    if (p->state == SENDING || p->state == HEARING) {
        *awaited(load, p) -= 1;
    }
    load->failures += p->state != IDLE;
    forget_cert(p);
    gnutls_deinit(p->tls);
    close(p->fd);
    fed_writer_free(&p->request);
    p->state = CLOSED;
    p->ask = NULL;
}

void fed_load_close(fed_load *load) {
    if (load == NULL) {
        return;
    }
    for (size_t k = 0; load->peers != NULL && k < load->count; k++) {
        hang_up(load, &load->peers[k]);
    }
    if (load->priority != NULL) {
        gnutls_priority_deinit(load->priority);
    }
    if (load->credentials != NULL) {
        gnutls_certificate_free_credentials(load->credentials);
    }
    if (load->epoll >= 0) {
        close(load->epoll);
    }
    free(load->peers);
    free(load->ms);
    free(load);
}

static void dial(fed_load *load, peer *p) {
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(load->port), .sin_addr = load->address};
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = p};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    load->failures += fd < 0;
    if (fd < 0) {
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) != 0 && errno != EINPROGRESS) {
        load->failures++;
        close(fd);
        return;
    }
    gnutls_init(&p->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_priority_set(p->tls, load->priority);
    gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, load->credentials);
    gnutls_session_set_ptr(p->tls, p);
    gnutls_transport_set_int(p->tls, fd);
    p->load = load;
    p->fd = fd;
    p->state = SHAKING;
    p->watched = event.events;
    load->shaking++;
    fed_writer_growing(&p->request);
    epoll_ctl(load->epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool again(ssize_t code) {
    return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED;
}

static void watch(fed_load *load, peer *p) {
    bool writes =
        p->state == SENDING || (p->state == SHAKING && gnutls_record_get_direction(p->tls) == 1);
    struct epoll_event event = {.events = writes ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = p};
    if (p->state != CLOSED && event.events != p->watched) {
        p->watched = event.events;
        epoll_ctl(load->epoll, EPOLL_CTL_MOD, p->fd, &event);
    }
}

static void shake(fed_load *load, peer *p) {
    int code = gnutls_handshake(p->tls);
    if (code == 0) {
        forget_cert(p);
        load->shaking--;
        p->state = IDLE;
    } else if (!again(code) && gnutls_error_is_fatal(code)) {
        hang_up(load, p);
    }
}

static void send_on(fed_load *load, peer *p) {
    while (p->sent < p->request.len) {
        ssize_t put =
            gnutls_record_send(p->tls, p->request.data + p->sent, p->request.len - p->sent);
        if (again(put)) {
            return;
        }
        if (put <= 0) {
            hang_up(load, p);
            return;
        }
        p->sent += (size_t)put;
    }
    p->state = HEARING;
}

static void ask_next(fed_load *load, peer *p) {
    p->request.len = 0;
    p->sent = p->head_len = p->heard_len = p->body_len = 0;
    p->in_body = false;
    if (p->ask != NULL) {
        p->ask(p->user, (size_t)(p - load->peers), &p->request);
    }
    if (p->request.len == 0) {
        fed_writer_free(&p->request);
        fed_writer_growing(&p->request);
        return;
    }
    p->sent_s = now_s();
    p->state = SENDING;
    *awaited(load, p) += 1;
    send_on(load, p);
}

static void conclude(fed_load *load, peer *p) {
    if (load->answers < LATENCIES) {
        load->ms[load->answers] = (float)(1e3 * (now_s() - p->sent_s));
    }
    load->answers++;
    *awaited(load, p) -= 1;
    p->state = IDLE;
    const fed_load_answer answer = {.status = p->status, .len = p->body_len, .body = p->body};
    if (p->heard != NULL) {
        p->heard(p->user, (size_t)(p - load->peers), &answer);
    }
    ask_next(load, p);
}

static bool parse_head(peer *p) {
    p->head[p->head_len] = '\0';
    const char *end = strstr(p->head, "\r\n\r\n");
    const char *length = strstr(p->head, "\r\nContent-Length:");
    if (end == NULL || length == NULL || p->head_len < 12) {
        return false;
    }
    p->status = (int)strtol(p->head + 9, NULL, 10);
    p->body_len = strtoull(length + 17, NULL, 10);
    p->in_body = true;
    return true;
}

static void take_body(peer *p, const uint8_t *data, size_t len) {
    if (p->heard_len < FED_LOAD_BODY) {
        size_t room = FED_LOAD_BODY - p->heard_len;
        memcpy(p->body + p->heard_len, data, len < room ? len : room);
    }
    p->heard_len += len;
}

static void take(peer *p, const uint8_t *data, size_t len) {
    if (p->in_body) {
        take_body(p, data, len);
        return;
    }
    size_t had = p->head_len;
    size_t part = len < HEAD - 1 - had ? len : HEAD - 1 - had;
    memcpy(p->head + had, data, part);
    p->head_len += part;
    if (parse_head(p)) {
        size_t used = (size_t)(strstr(p->head, "\r\n\r\n") + 4 - p->head) - had;
        take_body(p, data + used, len - used);
    }
}

/* Receive at most one answer and some bytes, so that each connection gets its turn. */
static void hear(fed_load *load, peer *p) {
    enum { RECORDS = 32 };
    for (int k = 0; k < RECORDS && p->state != CLOSED; k++) {
        ssize_t got = gnutls_record_recv(p->tls, load->chunk, CHUNK);
        if (again(got)) {
            return;
        }
        if (got <= 0 && (got == 0 || gnutls_error_is_fatal((int)got))) {
            hang_up(load, p);
            return;
        }
        if (got <= 0 || (p->state != HEARING && p->state != SENDING)) {
            continue;
        }
        take(p, load->chunk, (size_t)got);
        if (p->in_body && p->heard_len >= p->body_len) {
            if (p->state == SENDING) {
                hang_up(load, p);
            } else {
                conclude(load, p);
            }
            return;
        }
    }
}

static void attend(fed_load *load, peer *p) {
    if (p->state == SHAKING) {
        shake(load, p);
    }
    if (p->state == SENDING) {
        send_on(load, p);
    }
    if (p->state != SHAKING && p->state != CLOSED) {
        hear(load, p);
    }
    watch(load, p);
}

static void pass(fed_load *load, int wait_ms) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(load->epoll, events, EVENTS, wait_ms);
    for (int i = 0; i < n; i++) {
        attend(load, events[i].data.ptr);
    }
}

size_t fed_load_connect(fed_load *load, size_t parallel, double *seconds) {
    enum { LIMIT_S = 300 };
    size_t next = 0, connected = 0;
    double start_s = now_s();
    while ((next < load->count || load->shaking > 0) && now_s() < start_s + LIMIT_S) {
        while (next < load->count && load->shaking < parallel) {
            peer *p = &load->peers[next++];
            if (p->state == CLOSED) {
                dial(load, p);
            }
        }
        pass(load, 100);
    }
    for (size_t k = 0; k < load->count; k++) {
        connected += load->peers[k].state != CLOSED && load->peers[k].state != SHAKING;
    }
    *seconds = now_s() - start_s;
    return connected;
}

size_t fed_load_wait(fed_load *load, double seconds) {
    double end_s = now_s() + seconds;
    while (load->parked > 0 && now_s() < end_s) {
        pass(load, 20);
    }
    return load->parked;
}

static void start(fed_load *load, peer *p, fed_load_ask ask, fed_load_heard heard, void *user,
                  bool parked) {
    p->ask = ask;
    p->heard = heard;
    p->user = user;
    p->parked = parked;
    ask_next(load, p);
    watch(load, p);
}

size_t fed_load_post(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                     fed_load_heard heard, void *user) {
    size_t posted = 0;
    for (size_t k = first; k < first + count; k++) {
        peer *p = &load->peers[k];
        if (p->state == IDLE) {
            start(load, p, ask, heard, user, true);
            p->ask = NULL;
            posted += p->state == SENDING || p->state == HEARING;
        }
    }
    return posted;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

fed_load_result fed_load_run(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                             fed_load_heard heard, void *user, double limit_s) {
    double start_s = now_s();
    load->answers = load->failures = 0;
    for (size_t k = first; k < first + count; k++) {
        peer *p = &load->peers[k];
        load->failures += p->state == CLOSED || p->state == SHAKING;
        if (p->state == IDLE) {
            start(load, p, ask, heard, user, false);
        }
    }
    while (load->due > 0 && now_s() < start_s + limit_s) {
        pass(load, 100);
    }
    fed_load_result r = {.answers = load->answers,
                         .failures = load->failures + load->due,
                         .seconds = now_s() - start_s};
    for (size_t k = first; k < first + count; k++) {
        load->peers[k].ask = NULL;
    }
    size_t n = r.answers < LATENCIES ? r.answers : LATENCIES;
    if (n > 0) {
        qsort(load->ms, n, sizeof *load->ms, by_value);
        r.p50_ms = (double)load->ms[n / 2];
        r.p99_ms = (double)load->ms[n - 1 - n / 100];
        r.most_ms = (double)load->ms[n - 1];
    }
    return r;
}
