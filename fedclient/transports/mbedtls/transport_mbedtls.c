/* The transport on mbedTLS alone: HTTP/1.1 over TLS 1.3 over one kept connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fedclient/transports/mbedtls/http1.h"
#include "fedclient/transports/mbedtls/tls.h"
#include "fedclient/transports/mbedtls/url.h"

enum {
    SMALL_BODY = 65536, /* smaller bodies are read whole first, so that they can be sent again */
    LEAVE_MS = 1000,    /* most time that a large body waits for 100 Continue */
    RECORD = 16384,     /* bytes handed to TLS at a time, at most */
    /* after this many hang-ups in a row the certificate counts as refused */
    HANGUPS_TOLD = 5
};

typedef struct mbedtls_line {
    fedclient_tls tls;
    fedclient_transport_options options;
    unsigned hangups; /* connections in a row that ended after TLS, before a byte of an answer */
    fedclient_traffic traffic;
    uint8_t in[2048], out[4096]; /* received bytes; the next bytes of a large body */
} mbedtls_line;

typedef struct exchange {
    mbedtls_line *line;
    const fedclient_request *request;
    fedclient_url url;
    fed_writer head; /* the request's head, then a small body */
    size_t read;
    fed_status body_status;
    fedclient_http1 answer;
    bool fresh; /* the connection was made for this request */
    bool open;
    bool heard;
} exchange;

static bool asks_first(const fedclient_body *body) {
    return body != NULL && body->size >= SMALL_BODY;
}

static void write_range(fed_writer *w, const fedclient_range *range) {
    if (range == NULL || (range->first == 0 && range->most == 0)) {
        return;
    }
    fed_write_printf(w, "Range: bytes=%" PRIu64 "-", range->first);
    if (range->most > 0) {
        fed_write_printf(w, "%" PRIu64, range->first + range->most - 1);
    }
    fed_write_printf(w, "\r\n");
    if (range->if_tag != 0) {
        fed_write_printf(w, "If-Range: \"%016" PRIx64 "\"\r\n", range->if_tag);
    }
}

static void write_text(fed_writer *w, const char *begin, const char *value) {
    if (value != NULL) {
        fed_write_printf(w, "%s %s\r\n", begin, value);
    }
}

/** Write only necessary headers, since every byte costs on a metered link. */
static void write_head(exchange *x) {
    const fedclient_request *request = x->request;
    fed_writer *w = &x->head;
    fed_write_printf(w, "%s %s HTTP/1.1\r\nHost: ", request->method, x->url.path);
    fed_write_bytes(w, x->url.authority, x->url.authority_len);
    fed_write_printf(w, "\r\n");
    write_text(w, "Authorization: Bearer", request->bearer);
    write_text(w, "Fed-Device-Name:", request->device_name);
    write_text(w, "User-Agent:", request->software);
    write_text(w, "Fed-Computes-On:", request->computes_on);
    write_text(w, "Fed-Classes:", request->classes);
    write_range(w, request->range);
    if (request->body != NULL) {
        fed_write_printf(w, "Content-Length: %zu\r\n", request->body->size);
    }
    if (asks_first(request->body)) {
        fed_write_printf(w, "Expect: 100-continue\r\n");
    }
    fed_write_printf(w, "\r\n");
}

static fed_status read_body(exchange *x, void *dst, size_t cap, size_t *len) {
    const fedclient_body *body = x->request->body;
    const size_t left = body->size - x->read;
    x->body_status = body->read(body->user, dst, left < cap ? left : cap, len);
    if (x->body_status == FED_OK && *len == 0) {
        x->body_status = FED_EIO;
    }
    x->read += x->body_status == FED_OK ? *len : 0;
    return x->body_status;
}

/** Write the request's head into x->head, and after it a small body that has no `data`. */
static fed_status write_request(exchange *x) {
    const fedclient_body *body = x->request->body;
    fed_writer_growing(&x->head);
    write_head(x);
    if (body == NULL || body->data != NULL || asks_first(body)) {
        return x->head.status;
    }
    while (x->read < body->size) {
        size_t len = 0;
        uint8_t *dst = fed_writer_reserve(&x->head, body->size - x->read);
        FED_REQUIRE(dst != NULL, FED_ENOMEM);
        FED_TRY(read_body(x, dst, body->size - x->read, &len));
        fed_writer_advance(&x->head, len);
    }
    return x->head.status;
}

static bool is_done(const exchange *x) {
    return x->answer.state == FEDCLIENT_HTTP1_DONE;
}

/** Is the head of the final answer complete? Then the rest of the request would not change the
 * answer. */
static bool is_answered(const exchange *x) {
    return x->answer.state > FEDCLIENT_HTTP1_HEADER;
}

static fed_status take(exchange *x, size_t len) {
    size_t used = 0;
    x->heard = x->heard || len > 0;
    FED_TRY(fedclient_http1_take(&x->answer, x->line->in, len, &used));
    x->line->traffic.received_bytes += used;
    /* A connection with unexpected bytes after the answer is not used again. */
    x->answer.keep = x->answer.keep && used == len;
    return FED_OK;
}

static fed_status hear(exchange *x) {
    fedclient_tls *tls = &x->line->tls;
    bool ended = false;
    for (size_t got = 1; got > 0 && !is_done(x);) {
        FED_TRY(fedclient_tcp_stopped(&tls->tcp));
        FED_TRY(fedclient_tls_read(tls, x->line->in, sizeof x->line->in, &got, &ended));
        FED_TRY(take(x, got));
    }
    if (ended && !is_done(x)) {
        x->answer.keep = false;
        return fedclient_http1_end(&x->answer);
    }
    return FED_OK;
}

/** Send all bytes, or stop when the answer arrives before they are sent. */
static fed_status say(exchange *x, const uint8_t *src, size_t len) {
    fedclient_tls *tls = &x->line->tls;
    while (len > 0) {
        size_t sent = 0;
        int ways = 0;
        FED_TRY(hear(x));
        if (is_answered(x)) {
            x->answer.keep = false; /* a part of the request is not sent */
            return FED_OK;
        }
        FED_TRY(fedclient_tls_write(tls, src, len < RECORD ? len : RECORD, &sent, &ways));
        x->line->traffic.sent_bytes += sent;
        src += sent;
        len -= sent;
        if (sent == 0) {
            FED_TRY(fedclient_tcp_wait(&tls->tcp, ways, INT64_MAX));
        }
    }
    return FED_OK;
}

static fed_status say_body(exchange *x) {
    const fedclient_body *body = x->request->body;
    if (body->data != NULL) {
        return say(x, body->data, body->size);
    }
    while (x->read < body->size && !is_answered(x)) {
        size_t len = 0;
        FED_TRY(read_body(x, x->line->out, sizeof x->line->out, &len));
        FED_TRY(say(x, x->line->out, len));
    }
    return FED_OK;
}

/** Wait until the coordinator sends a 100 or an answer, at most a second. */
static fed_status await_leave(exchange *x) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LEAVE_MS;
    for (;;) {
        FED_TRY(hear(x));
        if (x->answer.continued || is_answered(x) || fed_clock_monotonic_ms() >= until_ms) {
            return FED_OK;
        }
        FED_TRY(fedclient_tcp_wait(&x->line->tls.tcp, FEDCLIENT_TCP_IN, until_ms));
    }
}

static fed_status talk(exchange *x) {
    FED_TRY(say(x, x->head.data, x->head.len));
    if (asks_first(x->request->body)) {
        FED_TRY(await_leave(x));
    }
    if (x->request->body != NULL) {
        FED_TRY(say_body(x));
    }
    for (;;) {
        FED_TRY(hear(x));
        if (is_done(x)) {
            return FED_OK;
        }
        FED_TRY(fedclient_tcp_wait(&x->line->tls.tcp, FEDCLIENT_TCP_IN, INT64_MAX));
    }
}

/** Is the kept connection to the request's host, and still open as far as this side knows? */
static bool is_usable(exchange *x) {
    fedclient_tls *tls = &x->line->tls;
    size_t got = 0;
    bool ended = false;
    return tls->open && strcmp(tls->host, x->url.host) == 0 &&
           strcmp(tls->port, x->url.port) == 0 &&
           fedclient_tls_read(tls, x->line->in, 1, &got, &ended) == FED_OK && got == 0 && !ended;
}

static fed_status connect_first(exchange *x) {
    fedclient_tls *tls = &x->line->tls;
    tls->tcp.patience_ms = fedclient_request_patience(&x->line->options, x->request);
    x->fresh = !is_usable(x);
    if (x->fresh) {
        fed_status status = fedclient_tls_open(tls, x->url.host, x->url.port);
        x->line->traffic.connections += tls->open;
        FED_TRY(status);
    }
    x->open = true;
    tls->tcp.patience_ms += x->request->hold_ms;
    tls->tcp.moved_ms = fed_clock_monotonic_ms();
    return FED_OK;
}

static bool may_repeat(const exchange *x) {
    const fedclient_body *body = x->request->body;
    return !x->fresh && !x->heard &&
           (body == NULL || body->data != NULL || !asks_first(body) || x->read == 0);
}

/** If the coordinator has closed the kept connection, send over a new one. */
static fed_status attempt(exchange *x, fed_writer *answer) {
    FED_TRY(fedclient_tcp_stopped(&x->line->tls.tcp));
    FED_TRY(write_request(x));
    x->line->traffic.requests++;
    for (;;) {
        fedclient_http1_begin(&x->answer, answer, x->request->answer_limit);
        FED_TRY(connect_first(x));
        fed_status status = talk(x);
        const bool broke = status == FED_ENET || (status == FED_EFORMAT && !x->heard);
        if (!broke || !may_repeat(x)) {
            return status;
        }
        fedclient_tls_close(&x->line->tls);
        x->open = false;
    }
}

/** In TLS 1.3 the client's handshake is over before the coordinator has checked the client's
 * certificate. So a refusal is an alert, or a connection that ends at once. An alert is believed at
 * once, but only several ended connections in a row are taken for a refusal. */
static bool certificate_refused(const exchange *x) {
    mbedtls_line *line = x->line;
    if (!x->open || !x->fresh || x->heard) {
        return false;
    }
    line->hangups += line->tls.identified;
    return line->tls.refused || line->hangups >= HANGUPS_TOLD;
}

static fed_status explain(const exchange *x, fed_status status, fed_error *err) {
    const char *method = x->request->method, *url = x->request->url;
    const char *why = x->line->tls.tcp.problem;
    if (x->body_status != FED_OK) {
        return fed_fail(err, status, "%s %s: the request's body ended at byte %zu of %zu", method,
                        url, x->read, x->request->body->size);
    }
    if ((status == FED_ENET || (status == FED_EFORMAT && !x->heard)) && certificate_refused(x)) {
        return fed_fail(
            err, FED_EAUTH,
            "%s: the coordinator refused this device's certificate, or a proxy closes the "
            "connections (%.120s): was the device removed at the coordinator, or is this "
            "another coordinator?",
            url, why);
    }
    switch (status) {
    case FED_EFORMAT:
        return fed_fail(err, FED_ENET, "%s %s: the answer is not valid HTTP/1.1: %s", method, url,
                        x->answer.problem);
    case FED_ERANGE:
        return fed_fail(err, status, "%s %s: the answer is longer than the %zu bytes allowed",
                        method, url, x->request->answer_limit);
    case FED_ETIMEOUT:
        return fed_fail(err, status, "%s %s: no byte moved for too long: %s", method, url, why);
    case FED_EAUTH:
        return fed_fail(err, status,
                        "%s: the coordinator's certificate can't be trusted (%.150s): check the "
                        "CA file, the host name in the address, the clock; if the coordinator has "
                        "changed its CA, enrol anew with its new ca.pem",
                        url, why);
    case FED_ENOMEM:
    case FED_ENOSPC:
        return fed_fail(err, status, "%s %s: %s", method, url, fed_status_text(status));
    default:
        return fed_fail(err, status, "%s %s: %s", method, url, why);
    }
}

/** Copy the answer's head to the caller's fields, also if the body is not complete. */
static void report_head(const exchange *x) {
    const fedclient_http1 *h = &x->answer;
    fedclient_range *range = x->request->range;
    const bool has_part = h->status == 200 || h->status == 206;
    if (range != NULL && x->heard) {
        range->begin = has_part ? h->begin : 0;
        range->total = has_part ? h->total : 0;
        range->tag = has_part ? h->tag : 0;
    }
    if (x->request->retry_after_s != NULL && h->retry_after_s > 0) {
        *x->request->retry_after_s = h->retry_after_s;
    }
}

static fed_status line_send(void *user, const fedclient_request *request, int *status,
                            fed_writer *answer, fed_error *err) {
    exchange x = {.line = user, .request = request};
    if (!fedclient_url_split(request->url, &x.url)) {
        return fed_fail(err, FED_EINVAL,
                        "%s: not an address that can be used: write https://HOST:PORT",
                        request->url);
    }
    fed_status result = attempt(&x, answer);
    fed_writer_free(&x.head);
    report_head(&x);
    x.line->hangups = x.heard ? 0 : x.line->hangups;
    if (result != FED_OK || !x.answer.keep) {
        fedclient_tls_close(&x.line->tls);
    }
    if (result != FED_OK) {
        return explain(&x, result, err);
    }
    *status = x.answer.status;
    return FED_OK;
}

static fed_status line_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                fed_error *err) {
    mbedtls_line *line = user;
    if ((key == NULL) != (cert == NULL)) {
        return fed_fail(err, FED_EINVAL,
                        "identify: a key needs its certificate, and a certificate its key: give "
                        "both or neither");
    }
    line->hangups = 0;
    fed_status status = fedclient_tls_identify(&line->tls, key, cert);
    if (status == FED_EAUTH) {
        return fed_fail(err, status,
                        "this device's own key and certificate can't be used together: enrol it "
                        "again");
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "out of memory for a certificate");
}

static void line_disconnect(void *user) {
    mbedtls_line *line = user;
    fedclient_tls_close(&line->tls);
}

static void line_traffic(void *user, fedclient_traffic *traffic) {
    const mbedtls_line *line = user;
    *traffic = line->traffic;
}

static void line_close(void *user) {
    mbedtls_line *line = user;
    fedclient_tls_free(&line->tls);
    free(line);
}

static fed_status line_open(const fedclient_transport_options *options,
                            fedclient_transport *transport, fed_error *err) {
    if (options->ca_pem == NULL) {
        return fed_fail(err, FED_ENOTFOUND,
                        "the transport mbedtls does not know the system's CAs: give it the CA "
                        "certificate of the cache");
    }
    mbedtls_line *line = calloc(1, sizeof *line);
    FED_REQUIRE(line != NULL, FED_ENOMEM);
    line->options = *options;
    fed_status status = fedclient_tls_init(&line->tls, options->ca_pem, &line->options);
    if (status != FED_OK) {
        line_close(line);
        return fed_fail(err, status, "mbedTLS can't use the CA certificates of ca_pem");
    }
    line->options.ca_pem = NULL; /* the caller owns the text and may free it now */
    *transport = (fedclient_transport){.user = line,
                                       .send = line_send,
                                       .identify = line_identify,
                                       .disconnect = line_disconnect,
                                       .traffic = line_traffic,
                                       .close = line_close};
    return FED_OK;
}

const fedclient_transport_kind fedclient_transport_mbedtls = {"mbedtls", line_open};
