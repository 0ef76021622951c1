/* Gives libmicrohttpd the answers: a coordinator's response, or a refusal of the adapter. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fed/clock.h"
#include "fedserver/http/http_exchange.h"
#include "fedserver/http/http_headers.h"

static void free_share(void *blob) {
    fedserver_blob_free(blob);
}

int http_refusal_json(const http_refusal *r, char *json, size_t cap) {
    return snprintf(json, cap, "{\"error\": \"%s\", \"message\": \"%s\"}\n", r->error, r->message);
}

static struct MHD_Response *make_response(http_exchange *x) {
    fedserver_blob *body = x->response.body;
    size_t len = 0;
    if (x->refused != NULL) {
        char json[256];
        len = (size_t)http_refusal_json(x->refused, json, sizeof json);
        return MHD_create_response_from_buffer(len, json, MHD_RESPMEM_MUST_COPY);
    }
    if (body == NULL) {
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    }
    const uint8_t *data = fedserver_blob_data(body, &len);
    struct MHD_Response *made =
        MHD_create_response_from_buffer_with_free_callback_cls(len, (void *)data, free_share, body);
    x->response.body = made != NULL ? NULL : body;
    return made;
}

static void add_header(void *response, const char *name, const char *value) {
    (void)MHD_add_response_header(response, name, value);
}

static const char *header_of(http_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static bool suit(http_exchange *x) {
    /* The client has the body already if If-None-Match contains the body's ETag. */
    const char *known = header_of(x, MHD_HTTP_HEADER_IF_NONE_MATCH);
    const char *tag = x->response.etag;
    const bool is_known = x->response.status == 200 && tag[0] != '\0' && known != NULL &&
                          strcmp(x->request.method, MHD_HTTP_METHOD_GET) == 0 &&
                          (strcmp(known, "*") == 0 || strstr(known, tag) != NULL);
    if (is_known) {
        fedserver_blob_free(x->response.body);
        x->response.body = NULL;
        x->response.content_type = NULL;
        x->response.status = 304;
    }
    fedserver_response *response = &x->response;
    const char *type = response->content_type;
    fedserver_blob *zipped = NULL;
    if (response->body != NULL && response->status == 200 && type != NULL &&
        (strncmp(type, "text/", 5) == 0 || strncmp(type, "application/json", 16) == 0) &&
        http_gzip_accepted(header_of(x, MHD_HTTP_HEADER_ACCEPT_ENCODING))) {
        zipped = http_gzip_blob(&x->http->gzip, response->body);
    }
    if (zipped != NULL) {
        fedserver_blob_free(response->body);
        response->body = zipped;
    }
    return zipped != NULL;
}

static void count_answer(const http_exchange *x, int status) {
    enum { SAY_EVERY_MS = 10 * 1000 };
    http *h = x->http;
    const int64_t now_ms = fed_clock_monotonic_ms();
    char address[HTTP_ADDRESS_TEXT];
    if (status >= 0 && status < 600) {
        fedserver_wire(h->server)->answers[status]++;
    }
    h->throttled += status == 429;
    if (status != 429 || (h->throttled_ms != 0 && now_ms - h->throttled_ms < SAY_EVERY_MS)) {
        return;
    }
    http_address_write(&x->peer->wire.address, address);
    fed_logf(h->log, FED_LOG_WARN, "throttled address=%s count=%llu", address,
             (unsigned long long)h->throttled);
    h->throttled = 0;
    h->throttled_ms = now_ms;
}

static bool body_follows(const http_exchange *x) {
    const fedserver_response *response = &x->response;
    size_t len = 0;
    if (x->refused == NULL && response->body != NULL) {
        (void)fedserver_blob_data(response->body, &len);
    }
    return x->takes_body && (x->refused != NULL || (len > 0 && response->status >= 200 &&
                                                    response->status != MHD_HTTP_NO_CONTENT &&
                                                    response->status != MHD_HTTP_NOT_MODIFIED));
}

enum MHD_Result http_answer(http_exchange *x) {
    const http_refusal *r = x->refused;
    const bool zipped = r == NULL && suit(x);
    const bool has_body = body_follows(x);
    struct MHD_Response *response = make_response(x);
    if (response == NULL) {
        return MHD_NO;
    }
    const int status = r != NULL ? r->status : x->response.status;
    const uint32_t retry_after_s = r == NULL          ? x->response.retry_after_s
                                   : r->status == 503 ? 1
                                                      : x->wait_s;
    const http_headers_answer head = {
        .listener = x->request.listener,
        .status = status,
        .content_type = r != NULL ? "application/json" : x->response.content_type,
        .retry_after_s = retry_after_s,
        .host = header_of(x, MHD_HTTP_HEADER_HOST),
        .allow = status == 405 ? fedserver_methods(&x->request) : NULL,
        .zipped = zipped,
        .response = &x->response};
    http_headers_each(&head, add_header, response);
    if (r != NULL && r->closes) {
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    count_answer(x, status);
    const enum MHD_Result queued = MHD_queue_response(x->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    if (queued == MHD_YES && has_body) {
        http_wire_hold(&x->peer->wire);
    }
    return queued;
}
