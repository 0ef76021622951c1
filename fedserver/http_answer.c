/* Answers: a coordinator's response, or a refusal of the adapter's own, as libmicrohttpd sends it.
 */
#include <stdio.h>
#include <string.h>

#include "fedserver/http_exchange.h"

#define PAGE_POLICY                                                                                \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "      \
    "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static void free_share(void *blob) {
    fedserver_blob_free(blob);
}

static struct MHD_Response *refusal_response(const http_refusal *r) {
    char json[256];
    const int len = snprintf(json, sizeof json, "{\"error\": \"%s\", \"message\": \"%s\"}\n",
                             r->error, r->message);
    return MHD_create_response_from_buffer((size_t)len, json, MHD_RESPMEM_MUST_COPY);
}

/* The body's share goes to the response. */
static struct MHD_Response *blob_response(fedserver_response *response) {
    if (response->body == NULL) {
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    }
    size_t len = 0;
    const uint8_t *data = fedserver_blob_data(response->body, &len);
    struct MHD_Response *made = MHD_create_response_from_buffer_with_free_callback_cls(
        len, (void *)data, free_share, response->body);
    if (made != NULL) {
        response->body = NULL;
    }
    return made;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
    (void)MHD_add_response_header(response, name, value); /* "" is refused, and left out */
}

static void add_headers(struct MHD_Response *response, const char *type, uint32_t retry_after_s) {
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    if (type != NULL) {
        add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        if (strncmp(type, "text/html", 9) == 0) {
            add_header(response, "Content-Security-Policy", PAGE_POLICY);
            add_header(response, "Referrer-Policy", "no-referrer");
        }
    }
    if (retry_after_s > 0) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%u", retry_after_s);
        add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
}

enum MHD_Result http_answer(http_exchange *x) {
    const http_refusal *r = x->refused;
    struct MHD_Response *response = r != NULL ? refusal_response(r) : blob_response(&x->response);
    if (response == NULL) {
        return MHD_NO;
    }
    const int status = r != NULL ? r->status : x->response.status;
    const uint32_t retry_after_s = r == NULL          ? x->response.retry_after_s
                                   : r->status == 503 ? 1
                                                      : x->wait_s;
    add_headers(response, r != NULL ? "application/json" : x->response.content_type, retry_after_s);
    add_header(response, MHD_HTTP_HEADER_ETAG, x->response.etag);
    add_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, x->response.content_range);
    if (r != NULL && r->closes) {
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    const enum MHD_Result queued = MHD_queue_response(x->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}
