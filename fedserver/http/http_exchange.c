/* Receives requests: checks the head, collects the body, and queues the complete request. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_exchange.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fed/clock.h"
#include "fed/hash.h"
#include "fedserver/http/http_headers.h"

enum {
    DISCARD_MOST = 8 << 20, /* bytes; a larger body of a refused request is not read */
    BODY_BYTES_PER_MS = 4,  /* lowest rate of a body, after BODY_GRACE_MS */
    BODY_GRACE_MS = 60 * 1000,
};

static const http_refusal refusals[] = {
    {403, "device_refused",
     "the coordinator takes no such request from this device: the answer to a check-in says why",
     false},
    {404, "not_found", "there is nothing at this path: see docs/protocol.md", false},
    {405, "method_not_allowed", "this path does not take that method: see docs/protocol.md", false},
    {413, "too_large", "the body is larger than this request can be: do not send it again", false},
    {503, "busy",
     "this coordinator has heard of no task with so large an update: send the same again later",
     false},
};
static const http_refusal refused_otherwise = {400, "bad_request",
                                               "this request can't have a body: send none", false};
static const http_refusal chunked = {
    411, "length_required", "a chunked body is not taken: send its size as Content-Length", false};
static const http_refusal too_many_arguments = {
    431, "too_large", "the query has more than 64 arguments: see docs/protocol.md", true};
static const http_refusal malformed = {
    400, "bad_request",
    "the request's head can be read in two ways: send one Content-Length, of digits", true};
const http_refusal http_refusal_full = {
    503, "busy", "too many uploads at once: send the same again later", false};
const http_refusal http_refusal_no_leader = {
    503, "no_leader", "no coordinator leads at this moment: send the same request again", false};
const http_refusal http_refusal_too_many = {
    429, "too_many",
    "more requests, bytes or connections than one peer may have: "
    "send the same again later",
    false};
static const http_refusal expired = {
    403, "device_unknown", "this device's certificate has expired: enrol the device again", true};
const http_refusal http_refusal_stopping = {
    503, "stopping", "the coordinator is stopping: send the same again later", true};

void http_queue_clear(http_queue *queue) {
    *queue = (http_queue){.first = NULL, .end = NULL};
}

void http_queue_add(http_queue *queue, http_exchange *x) {
    http_exchange **end = queue->first == NULL ? &queue->first : queue->end;
    *end = x;
    x->next = NULL;
    queue->end = &x->next;
}

/* Find the path in a target such as "https://host:8443/v1/status", which proxies send. */
static const char *path_of(const char *target) {
    static const char *const schemes[] = {"https://", "http://"};
    for (size_t k = 0; k < 2; k++) {
        const size_t len = strlen(schemes[k]);
        if (strncasecmp(target, schemes[k], len) == 0) {
            target += len + strcspn(target + len, "/?");
            return *target != '\0' ? target : "/";
        }
    }
    return target;
}

http_exchange *http_exchange_new(http_listener *listener, http_peer *peer,
                                 struct MHD_Connection *connection, const char *uri) {
    const size_t len = strlen(uri);
    http_exchange *x = calloc(1, sizeof *x + len + 1);
    if (x == NULL) {
        return NULL;
    }
    memcpy(x->uri, uri, len + 1);
    x->target_end = uri + len;
    char *query = strchr(x->uri, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    x->http = listener->http;
    x->peer = peer;
    x->connection = connection;
    x->request.listener = listener->kind;
    x->request.path = path_of(x->uri);
    x->request.query = query != NULL ? query : "";
    return x;
}

void http_exchange_free(http_exchange *x) {
    http_exchange_drop_body(x);
    fedserver_blob_free(x->response.body);
    fedserver_blob_free(x->shelved);
    free(x);
}

static const char *header(http_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* Read the number that 16 hex digits write. 0: `text` is NULL or anything else. */
static uint64_t digest_in(const char *text) {
    uint8_t bytes[8];
    uint64_t number = 0;
    const bool reads = text != NULL && fed_unhex(text, bytes, sizeof bytes) == FED_OK;
    for (size_t k = 0; reads && k < sizeof bytes; k++) {
        number = number << 8 | bytes[k];
    }
    return number;
}

static bool proxied(http_exchange *x) {
    for (const char *const *name = http_headers_of_proxies; *name != NULL; name++) {
        if (header(x, *name) != NULL) {
            return true;
        }
    }
    return false;
}

static const char *bearer(http_exchange *x) {
    static const char scheme[] = "Bearer ";
    const char *value = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    if (value == NULL || strncasecmp(value, scheme, sizeof scheme - 1) != 0) {
        return NULL;
    }
    return value + sizeof scheme - 1;
}

static uint64_t head_bytes(http_exchange *x) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info != NULL ? info->header_size : 0;
}

const http_refusal *http_refusal_of(int status) {
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        if (refusals[k].status == status) {
            return &refusals[k];
        }
    }
    return &refused_otherwise;
}

typedef struct head_look {
    unsigned lengths;
    bool bad;
} head_look;

/* Note headers that a proxy may read differently, such as a name with a blank before its colon, or
 * a Content-Length that is not a number. */
static enum MHD_Result look_at_header(void *user, enum MHD_ValueKind kind, const char *name,
                                      const char *value) {
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "!#$%&'*+-.^_`|~";
    (void)kind;
    head_look *look = user;
    const size_t len = strlen(name);
    look->bad = look->bad || len == 0 || strspn(name, token) != len;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        look->lengths++;
        look->bad = look->bad || value == NULL || value[0] == '\0' ||
                    value[strspn(value, "0123456789")] != '\0';
    }
    return MHD_YES;
}

/* Could a proxy read another request in this head? A NUL in the target ends libmicrohttpd's string
 * early. The HTTP version then does not directly follow the end of the string in memory. */
static bool ambiguous(const http_exchange *x, const char *version) {
    /* a larger gap means that the version is in another block of memory */
    enum { HEAD_MOST = 64 * 1024 };
    const uintptr_t gap = (uintptr_t)version - (uintptr_t)x->target_end;
    head_look look = {.lengths = 0};
    (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, look_at_header, &look);
    return look.bad || look.lengths > 1 || (gap > 1 && gap < HEAD_MOST);
}

static bool has_too_many_arguments(const char *query) {
    enum { ARGUMENTS_MOST = 64 };
    unsigned count = 1;
    for (; *query != '\0'; query++) {
        count += *query == '&';
    }
    return count > ARGUMENTS_MOST;
}

static const http_refusal *why_not(http_exchange *x, uint64_t size) {
    const http *h = x->http;
    void *session =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
    if (!http_peer_valid(x->peer, session, fed_clock_unix_ms() / 1000)) {
        return &expired;
    }
    x->wait_s = http_peer_ask(x->peer, size);
    if (x->wait_s > 0) {
        return &http_refusal_too_many;
    }
    if (header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL) {
        return &chunked;
    }
    if (has_too_many_arguments(x->request.query)) {
        return &too_many_arguments;
    }
    if (size == 0) {
        return NULL;
    }
    const int status = fedserver_body_refused(h->server, &x->request, size);
    if (status != 0) {
        return http_refusal_of(status);
    }
    return size > HTTP_BODIES_MOST - h->bodies ? &http_refusal_full : NULL;
}

/* Refuse a request before its body is read. Usually the body is still read and dropped, because a
 * client that is sending may miss an answer if the connection closes. */
static enum MHD_Result refuse(http_exchange *x, const http_refusal *why, uint64_t size) {
    x->refused = why;
    if (size > DISCARD_MOST || why == &chunked || why == &malformed ||
        header(x, MHD_HTTP_HEADER_EXPECT) != NULL) {
        return http_answer(x);
    }
    x->state = STATE_DISCARD;
    return MHD_YES;
}

enum MHD_Result http_exchange_begin(http_exchange *x, const char *method, const char *version) {
    http_peer_settled(x->peer);
    x->peer->spoke = true;
    x->begun_ms = fed_clock_monotonic_ms();
    if (ambiguous(x, version)) {
        return refuse(x, &malformed, 0);
    }
    x->takes_body = strcmp(method, MHD_HTTP_METHOD_HEAD) != 0;
    x->request.method = x->takes_body ? method : MHD_HTTP_METHOD_GET;
    x->request.bearer = bearer(x);
    x->request.range = header(x, MHD_HTTP_HEADER_RANGE);
    x->request.if_range = header(x, MHD_HTTP_HEADER_IF_RANGE);
    x->request.cookie = header(x, MHD_HTTP_HEADER_COOKIE);
    x->request.host = header(x, MHD_HTTP_HEADER_HOST);
    x->request.origin = header(x, MHD_HTTP_HEADER_ORIGIN);
    x->request.fetch_site = header(x, "Sec-Fetch-Site");
    x->request.act = header(x, "Fed-Act");
    http_address_write(&x->peer->wire.address, x->address);
    x->request.address = x->address;
    x->request.loopback = http_address_loopback(&x->peer->wire.address) && !proxied(x);
    x->request.agent = header(x, MHD_HTTP_HEADER_USER_AGENT);
    x->request.device_name = header(x, "Fed-Device-Name");
    x->request.computes_on = header(x, "Fed-Computes-On");
    x->request.classes = digest_in(header(x, "Fed-Classes"));
    x->request.wire_bytes = head_bytes(x);
    if (x->peer->kind == FEDSERVER_DEVICES) {
        x->request.fingerprint = x->peer->identity.fingerprint;
        x->request.certificate = x->peer->identity.certificate;
    }
    /* A length that is not a number was refused above, in ambiguous. */
    const char *length = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const uint64_t size = length != NULL ? strtoull(length, NULL, 10) : 0;
    const http_refusal *why = why_not(x, size);
    if (why != NULL) {
        return refuse(x, why, size);
    }
    /* why_not has found out the peer's identity */
    x->request.authority = x->peer->identity.authority;
    if (size > 0) {
        x->body = malloc((size_t)size);
        if (x->body == NULL) {
            return refuse(x, &http_refusal_full, size);
        }
        x->body_size = (size_t)size;
        x->http->bodies += x->body_size;
        http_peer_body_begins(x->peer, size);
    }
    x->state = STATE_BODY;
    return MHD_YES;
}

enum MHD_Result http_exchange_take(http_exchange *x, const char *data, size_t len) {
    const int64_t spent_ms = fed_clock_monotonic_ms() - x->begun_ms;
    if (spent_ms > BODY_GRACE_MS + (int64_t)(x->taken / BODY_BYTES_PER_MS)) {
        /* MHD_NO closes the connection, because no answer can be sent in the middle of a body */
        return MHD_NO;
    }
    x->taken += len;
    if (x->state == STATE_DISCARD) {
        return MHD_YES;
    }
    if (len > x->body_size - x->request.body_len) {
        return MHD_NO;
    }
    memcpy(x->body + x->request.body_len, data, len);
    x->request.body_len += len;
    return MHD_YES;
}

void http_exchange_drop_body(http_exchange *x) {
    x->http->bodies -= x->body_size;
    if (x->peer != NULL) {
        http_peer_body_ends(x->peer, x->body_size);
    }
    x->body_size = 0;
    free(x->body);
    x->body = NULL;
}

bool http_exchange_end(http_exchange *x) {
    if (x->http->stopping && x->refused == NULL) {
        x->refused = &http_refusal_stopping;
    }
    x->request.body = x->body;
    x->request.wire_bytes += x->request.body_len;
    x->parked_ms = fed_clock_monotonic_ms();
    return x->refused != NULL;
}

enum MHD_Result http_exchange_park(http_exchange *x) {
    x->state = STATE_PARKED;
    http_queue_add(&x->http->queue, x);
    MHD_suspend_connection(x->connection);
    return MHD_YES;
}

bool http_exchange_keep_cut(http_exchange *x) {
    if (x->state != STATE_BODY || x->request.body_len == 0 || x->http->closing ||
        !fedserver_body_in_parts(&x->request)) {
        return false;
    }
    x->state = STATE_CUT;
    http_peer_body_ends(x->peer, x->body_size);
    x->identity = x->peer->identity;
    x->peer = NULL;
    /* The request's headers are in the connection's memory, which will be freed. Only POST requests
     * are kept, and they need no headers. */
    x->request = (fedserver_request){.listener = x->request.listener,
                                     .method = "POST",
                                     .path = x->request.path,
                                     .query = x->request.query,
                                     .fingerprint = x->identity.fingerprint,
                                     .certificate = x->identity.certificate,
                                     .authority = x->identity.authority,
                                     .body = x->body,
                                     .body_len = x->request.body_len,
                                     .wire_bytes = x->request.wire_bytes + x->request.body_len};
    http_queue_add(&x->http->queue, x);
    return true;
}
