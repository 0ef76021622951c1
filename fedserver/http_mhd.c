/* The coordinator's HTTPS adapter: libmicrohttpd above, fedserver_handle below.
 *
 * One thread runs two daemons (front, devices) and the coordinator. Each turn of the loop: let both
 * daemons read and write; take every request that is complete as one batch, in one transaction;
 * then wait. A request waits for its batch, or for news, as a suspended connection.
 *
 * What libmicrohttpd 0.9.75 makes one know:
 * - With TLS and epoll, a peer that stalls in its handshake is "ready" for ever, and the library's
 *   own loop spins. Ours sees by the count of bytes moved (http.progress) that nothing happens.
 * - It asks for a client certificate but does not verify it: http_tls.c does.
 * - An answer to the first call of the handler closes the connection: answer the second one.
 * - A suspended connection has no timeout, and its peer's going away is not noticed.
 */
#include "fedserver/http.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/http_peer.h"
#include "fedserver/http_socket.h"
#include "fedserver/http_tls.h"

enum {
    POOL_BYTES = 32 * 1024,    /* libmicrohttpd's memory a connection; bounds a request's head */
    BODIES_MOST = 256 << 20,   /* request bodies in memory, together */
    DISCARD_MOST = 8 << 20,    /* a refused body up to this is read all the same, see refuse */
    LOOK_MS = 100,             /* how long a look at *stop may be away */
    STALL_S = 60,              /* nothing sent, nothing taken */
    BODY_BYTES_PER_MS = 4,     /* a body slower than this, ... */
    BODY_GRACE_MS = 60 * 1000, /* ... once this is over, is cut off */
    HOLD_MOST_MS = 55 * 1000,  /* routers on the way forget a silent connection after a minute */
    DRAIN_MS = 2000,           /* to get the last answers out when stopping */
    IDLE_TURNS = 4,            /* turns without a byte moved before we believe it */
    IDLE_MOST_MS = 50          /* then the loop slows down to this */
};

#define PAGE_POLICY                                                                                \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "      \
    "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

typedef struct http http;

typedef struct listener {
    http *http;
    fedserver_listener kind;
    struct MHD_Daemon *daemon;
    int epoll_fd;
} listener;

/* An error that the adapter answers by itself. */
typedef struct refusal {
    int status;
    const char *error, *message;
} refusal;

typedef enum stage {
    STAGE_HEAD,    /* the head is being read */
    STAGE_BODY,    /* the body is being read */
    STAGE_DISCARD, /* refused, and the body is read only to get the refusal across */
    STAGE_PARKED,  /* complete and suspended: in http.queue or http.held */
    STAGE_CUT,     /* the line broke in the middle of the body: what has come is in http.queue */
    STAGE_ANSWER,  /* there is an answer */
    STAGE_GONE     /* the peer is not there any more */
} stage;

/* A request and its answer. */
typedef struct exchange {
    http *http;
    http_peer *peer; /* CUT: gone */
    struct MHD_Connection *connection;
    stage stage;
    struct exchange *next; /* in http.queue or http.held */
    int64_t begun_ms, parked_ms, held_until_ms;
    fedserver_request request;
    http_tls_identity identity; /* CUT: of the peer, which is gone */
    uint8_t *body;
    size_t body_size; /* what the head announced, and body has room for; request.body_len is here */
    size_t taken;     /* of a body, kept or discarded */
    fedserver_response response;
    const refusal *refused; /* instead of response */
    uint32_t wait_s;        /* 429: after how long to come again */
    char uri[];
} exchange;

typedef struct line {
    exchange *first, **end;
} line;

struct http {
    fedserver *server;
    const fed_log *log;
    listener listeners[2]; /* daemon NULL: another process's */
    http_tls tls;
    http_peers peers;
    line queue;           /* complete requests, for the next batch */
    line held;            /* asked, told to wait */
    int64_t held_next_ms; /* when the first of them is to be asked again */
    uint64_t epoch;       /* of the coordinator, when they were asked */
    size_t live;          /* exchanges */
    size_t bodies;        /* bytes of bodies announced by them */
    int64_t next_ms;      /* when fedserver_tick wants to be called, Unix time */
    uint64_t progress;    /* grows whenever a byte or a request moves */
    unsigned idle_turns;
    bool resumed, stopping, closing;
    bool woken; /* the coordinator wants a batch */
};

static const refusal refusals[] = {
    {403, "device_refused",
     "the coordinator takes nothing of this kind from this device: check in, and it says why"},
    {404, "not_found", "there is nothing at this address: see docs/protocol.md"},
    {405, "method_not_allowed", "this address does not take that method: see docs/protocol.md"},
    {413, "too_large", "the body is larger than this request can be: do not send it again"},
};
static const refusal refused_otherwise = {400, "bad_request",
                                          "this request can't have a body: send none"};
static const refusal chunked = {411, "length_required",
                                "a chunked body is not taken: send its size as Content-Length"};
static const refusal full = {503, "busy", "too many uploads at once: send the same again later"};
static const refusal stopping = {503, "stopping",
                                 "the coordinator is stopping: send the same again later"};
static const refusal too_many = {429, "too_many",
                                 "more requests, bytes or connections than one peer may have: send "
                                 "the same again later"};
static const refusal expired = {403, "device_unknown",
                                "this device's certificate has expired: enrol the device again"};

static void line_clear(line *l) {
    *l = (line){.first = NULL, .end = NULL};
}

static void line_add(line *l, exchange *x) {
    exchange **end = l->first == NULL ? &l->first : l->end;
    *end = x;
    x->next = NULL;
    l->end = &x->next;
}

/* ---- peers ---------------------------------------------------------------------------------- */

static void *session_of(struct MHD_Connection *connection) {
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
}

/* libmicrohttpd: a connection came (before its handshake) or went (after everything else). */
static void on_peer(void *user, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode what) {
    listener *l = user;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        http_peer_free(*context);
        return;
    }
    const int fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *context = http_peer_new(&l->http->peers, l, l->kind, session_of(connection), fd);
    if (*context == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

static void free_share(void *blob) {
    fedserver_blob_free(blob);
}

static struct MHD_Response *refusal_response(const refusal *r) {
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

static enum MHD_Result answer(exchange *x) {
    const refusal *r = x->refused;
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
    if (r == &expired || r == &stopping) {
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    const enum MHD_Result queued = MHD_queue_response(x->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- requests ------------------------------------------------------------------------------- */

static const char *header(exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static const char *bearer(exchange *x) {
    static const char scheme[] = "Bearer ";
    const char *value = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    if (value == NULL || strncasecmp(value, scheme, sizeof scheme - 1) != 0) {
        return NULL;
    }
    return value + sizeof scheme - 1;
}

/* Bytes of body to come; libmicrohttpd has refused what is not a number. */
static uint64_t content_length(exchange *x) {
    const char *value = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

static uint64_t head_bytes(exchange *x) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info != NULL ? info->header_size : 0;
}

static const refusal *refusal_of(int status) {
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        if (refusals[k].status == status) {
            return &refusals[k];
        }
    }
    return &refused_otherwise;
}

/* Why a request with this head and body size is not taken; NULL: it is. */
static const refusal *why_not(exchange *x, uint64_t size) {
    const http *h = x->http;
    if (!http_peer_valid(x->peer, session_of(x->connection), fed_clock_unix_ms() / 1000)) {
        return &expired;
    }
    x->wait_s = http_peer_ask(x->peer, x->request.method, size);
    if (x->wait_s > 0) {
        return &too_many;
    }
    if (header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL) {
        return &chunked;
    }
    if (size == 0) {
        return NULL;
    }
    const int status = fedserver_body_refused(h->server, &x->request, size);
    if (status != 0) {
        return refusal_of(status);
    }
    return size > BODIES_MOST - h->bodies ? &full : NULL;
}

/* Refuse a body before it is read. A client that is in the middle of sending hardly ever sees an
 * answer that comes with a closed connection, and would send the same again: so unless it waits for
 * leave to send ("Expect"), or the body is huge, the body is read, dropped, and then answered. */
static enum MHD_Result refuse(exchange *x, const refusal *why, uint64_t size) {
    x->refused = why;
    if (size > DISCARD_MOST || why == &chunked || header(x, MHD_HTTP_HEADER_EXPECT) != NULL) {
        return answer(x);
    }
    x->stage = STAGE_DISCARD;
    return MHD_YES;
}

/* The head is complete. */
static enum MHD_Result begin_request(exchange *x, const char *method) {
    http_peer_settled(x->peer);
    x->begun_ms = fed_clock_monotonic_ms();
    x->request.method = method;
    x->request.bearer = bearer(x);
    x->request.range = header(x, MHD_HTTP_HEADER_RANGE);
    x->request.if_range = header(x, MHD_HTTP_HEADER_IF_RANGE);
    x->request.wire_bytes = head_bytes(x);
    if (x->peer->kind == FEDSERVER_DEVICES) {
        x->request.fingerprint = x->peer->identity.fingerprint;
        x->request.certificate = x->peer->identity.certificate;
    }
    const uint64_t size = content_length(x);
    const refusal *why = why_not(x, size);
    if (why != NULL) {
        return refuse(x, why, size);
    }
    if (size > 0) {
        x->body = malloc((size_t)size);
        if (x->body == NULL) {
            return refuse(x, &full, size);
        }
        x->body_size = (size_t)size;
        x->http->bodies += x->body_size;
        http_peer_body_begins(x->peer, size);
    }
    x->stage = STAGE_BODY;
    return MHD_YES;
}

static enum MHD_Result take_body(exchange *x, const char *data, size_t len) {
    const int64_t spent_ms = fed_clock_monotonic_ms() - x->begun_ms;
    if (spent_ms > BODY_GRACE_MS + (int64_t)(x->taken / BODY_BYTES_PER_MS)) {
        return MHD_NO; /* closes the connection: no answer can be given in the middle of a body */
    }
    x->taken += len;
    if (x->stage == STAGE_DISCARD) {
        return MHD_YES;
    }
    if (len > x->body_size - x->request.body_len) {
        return MHD_NO;
    }
    memcpy(x->body + x->request.body_len, data, len);
    x->request.body_len += len;
    return MHD_YES;
}

static void drop_body(exchange *x) {
    x->http->bodies -= x->body_size;
    if (x->peer != NULL) {
        http_peer_body_ends(x->peer, x->body_size);
    }
    x->body_size = 0;
    free(x->body);
    x->body = NULL;
}

/* The request is complete. */
static enum MHD_Result end_request(exchange *x) {
    http *h = x->http;
    if (h->stopping && x->refused == NULL) {
        x->refused = &stopping;
    }
    if (x->refused != NULL) {
        return answer(x);
    }
    x->request.body = x->body;
    x->request.wire_bytes += x->request.body_len;
    x->parked_ms = fed_clock_monotonic_ms();
    x->stage = STAGE_PARKED;
    line_add(&h->queue, x);
    MHD_suspend_connection(x->connection);
    return MHD_YES;
}

/* libmicrohttpd: called when a request's head is there, for each piece of its body, when it is
 * complete, and again when it is resumed. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **context) {
    (void)connection, (void)url, (void)version;
    exchange *x = *context;
    ((listener *)user)->http->progress++;
    if (x == NULL) {
        return MHD_NO;
    }
    switch (x->stage) {
    case STAGE_HEAD:
        return begin_request(x, method);
    case STAGE_BODY:
    case STAGE_DISCARD:
        if (*len > 0) {
            const size_t piece = *len;
            *len = 0;
            return take_body(x, data, piece);
        }
        return end_request(x);
    case STAGE_ANSWER:
        return answer(x);
    case STAGE_PARKED:
    case STAGE_CUT:
    case STAGE_GONE:
        break;
    }
    return MHD_NO;
}

/* libmicrohttpd: a request line is there. The path and the query are taken from here because
 * on_request gets them taken apart. */
static void *on_uri(void *user, const char *uri, struct MHD_Connection *connection) {
    listener *l = user;
    http_peer *p =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    const size_t len = strlen(uri);
    exchange *x = p != NULL ? calloc(1, sizeof *x + len + 1) : NULL;
    if (x == NULL) {
        return NULL;
    }
    memcpy(x->uri, uri, len + 1);
    char *query = strchr(x->uri, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    x->http = l->http;
    x->peer = p;
    x->connection = connection;
    x->request.listener = l->kind;
    x->request.path = x->uri;
    x->request.query = query != NULL ? query : "";
    l->http->live++;
    return x;
}

static void exchange_free(exchange *x) {
    drop_body(x);
    fedserver_blob_free(x->response.body);
    free(x);
}

/* The connection is lost in the middle of a body whose beginning is worth something: keep that for
 * the next batch. Nothing of the connection may be used from here on. */
static bool keep_cut(exchange *x) {
    if (x->stage != STAGE_BODY || x->request.body_len == 0 || x->http->closing ||
        !fedserver_body_in_parts(&x->request)) {
        return false;
    }
    x->stage = STAGE_CUT;
    http_peer_body_ends(x->peer, x->body_size);
    x->identity = x->peer->identity;
    x->peer = NULL;
    x->request.fingerprint = x->identity.fingerprint;
    x->request.certificate = x->identity.certificate;
    x->request.body = x->body;
    x->request.wire_bytes += x->request.body_len;
    x->request.bearer = x->request.range = x->request.if_range = NULL; /* the connection's memory */
    x->request.method = "POST"; /* likewise; such routes have no other */
    line_add(&x->http->queue, x);
    return true;
}

/* libmicrohttpd: the answer is out, or the connection is lost. */
static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why) {
    (void)connection, (void)why;
    http *h = ((listener *)user)->http;
    exchange *x = *context;
    *context = NULL;
    if (x == NULL) {
        return;
    }
    h->live--;
    http_peer_owes(x->peer);
    if (!keep_cut(x)) {
        exchange_free(x);
    }
}

/* ---- batches -------------------------------------------------------------------------------- */

static void resume(http *h, exchange *x, stage as) {
    x->stage = as;
    h->resumed = true;
    MHD_resume_connection(x->connection);
}

static void resume_all(http *h, line *l, stage as) {
    exchange *x = l->first;
    line_clear(l);
    for (exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        if (x->stage == STAGE_CUT) {
            exchange_free(x);
        } else {
            resume(h, x, as);
        }
    }
}

static void hold(http *h, exchange *x, int64_t until_ms) {
    x->held_until_ms = until_ms;
    if (h->held.first == NULL || until_ms < h->held_next_ms) {
        h->held_next_ms = until_ms;
    }
    line_add(&h->held, x);
}

static int64_t hold_ms(const fedserver_response *response) {
    return response->hold_ms < HOLD_MOST_MS ? response->hold_ms : HOLD_MOST_MS;
}

static void pay(exchange *x) {
    size_t len = 0;
    if (x->response.body != NULL) {
        (void)fedserver_blob_data(x->response.body, &len);
    }
    http_peer_answered(x->peer, x->response.status, len);
}

/* The batch is durable: its answers may leave. */
static void release(http *h) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    exchange *x = h->queue.first;
    line_clear(&h->queue);
    for (exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        if (x->stage == STAGE_CUT) {
            exchange_free(x);
        } else if (x->response.hold) {
            hold(h, x, now_ms + hold_ms(&x->response));
        } else {
            pay(x);
            drop_body(x);
            resume(h, x, STAGE_ANSWER);
        }
    }
}

static fed_status run_batch(http *h, fed_error *err) {
    const int64_t now_ms = fed_clock_unix_ms();
    const int64_t monotonic_ms = fed_clock_monotonic_ms();
    FED_TRY(fedserver_begin(h->server, err));
    for (exchange *x = h->queue.first; x != NULL; x = x->next) {
        x->request.waited_ms = monotonic_ms - x->parked_ms;
        x->response = (fedserver_response){0};
        FED_TRY(fedserver_handle(h->server, &x->request, now_ms, &x->response, err));
    }
    FED_TRY(fedserver_tick(h->server, now_ms, &h->next_ms, err));
    FED_TRY(fedserver_commit(h->server, err));
    release(h);
    return FED_OK;
}

/* Queue those held whom there may be news for, or whose time is over. */
static void wake_held(http *h) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    const uint64_t epoch = fedserver_epoch(h->server);
    const bool news = epoch != h->epoch;
    h->epoch = epoch;
    if (h->held.first == NULL || (!news && now_ms < h->held_next_ms)) {
        return;
    }
    exchange *x = h->held.first;
    line_clear(&h->held);
    for (exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        if (!news && now_ms < x->held_until_ms) {
            hold(h, x, x->held_until_ms);
        } else if (http_socket_gone(x->peer->wire.fd)) { /* give no place in a round to the dead */
            resume(h, x, STAGE_GONE);
        } else {
            line_add(&h->queue, x);
        }
    }
}

/* ---- the loop ------------------------------------------------------------------------------- */

static fed_status turn(http *h, fed_error *err) {
    h->resumed = false;
    for (size_t k = 0; k < 2; k++) {
        if (h->listeners[k].daemon != NULL) {
            (void)MHD_run(h->listeners[k].daemon);
        }
    }
    http_peers_cut_silent(&h->peers);
    wake_held(h);
    if (h->queue.first != NULL || h->woken || fed_clock_unix_ms() >= h->next_ms) {
        h->woken = false;
        return run_batch(h, err);
    }
    return FED_OK;
}

/* When libmicrohttpd wants its next turn; 0: at once. */
static int64_t daemons_wait_ms(http *h) {
    int64_t least_ms = LOOK_MS;
    for (size_t k = 0; k < 2; k++) {
        MHD_UNSIGNED_LONG_LONG wait_ms = 0;
        if (h->listeners[k].daemon != NULL &&
            MHD_get_timeout(h->listeners[k].daemon, &wait_ms) == MHD_YES &&
            wait_ms < (MHD_UNSIGNED_LONG_LONG)least_ms) {
            least_ms = (int64_t)wait_ms;
        }
    }
    return least_ms;
}

/* "At once" is to be believed while bytes move. A few turns that move none show that the peers said
 * to be ready are not: then wait too, longer and longer. A real event ends the wait in any case. */
static int64_t believed_wait_ms(http *h, int64_t asked_ms, bool moved_any) {
    if (asked_ms > 0 || moved_any) {
        h->idle_turns = 0;
        return asked_ms;
    }
    if (h->idle_turns < IDLE_TURNS) {
        h->idle_turns++;
        return 0;
    }
    const int64_t slow_ms = INT64_C(2) << (h->idle_turns - IDLE_TURNS);
    if (slow_ms >= IDLE_MOST_MS) {
        return IDLE_MOST_MS;
    }
    h->idle_turns++;
    return slow_ms;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t wait_ms(http *h, bool moved_any) {
    if (h->resumed || h->queue.first != NULL || fedserver_epoch(h->server) != h->epoch) {
        h->idle_turns = 0;
        return 0;
    }
    int64_t wait = believed_wait_ms(h, daemons_wait_ms(h), moved_any);
    wait = least(wait, h->next_ms - fed_clock_unix_ms());
    if (h->held.first != NULL) {
        wait = least(wait, h->held_next_ms - fed_clock_monotonic_ms());
    }
    return wait > 0 ? wait : 0;
}

static fed_status turn_and_wait(http *h, fed_error *err) {
    const uint64_t before = h->progress;
    FED_TRY(turn(h, err));
    struct pollfd wakers[3] = {{.fd = h->listeners[0].epoll_fd, .events = POLLIN},
                               {.fd = h->listeners[1].epoll_fd, .events = POLLIN},
                               {.fd = fedserver_wake_fd(h->server), .events = POLLIN}};
    (void)poll(wakers, 3, (int)wait_ms(h, h->progress != before));
    h->woken = wakers[2].revents != 0;
    return FED_OK;
}

/* Take no more connections, send home who is held, and get out what is owed. */
static fed_status drain(http *h, fed_error *err) {
    h->stopping = true;
    for (size_t k = 0; k < 2; k++) {
        const int fd =
            h->listeners[k].daemon != NULL ? MHD_quiesce_daemon(h->listeners[k].daemon) : -1;
        if (fd >= 0) {
            close(fd);
        }
    }
    for (exchange *x = h->held.first; x != NULL; x = x->next) {
        x->refused = &stopping;
    }
    resume_all(h, &h->held, STAGE_ANSWER);
    const int64_t end_ms = fed_clock_monotonic_ms() + DRAIN_MS;
    while (h->live > 0 && fed_clock_monotonic_ms() < end_ms) {
        FED_TRY(turn_and_wait(h, err));
    }
    return FED_OK;
}

/* ---- start and end -------------------------------------------------------------------------- */

static void on_log(void *user, const char *format, va_list arguments) {
    char text[300];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    fed_logf(user, FED_LOG_DEBUG, "libmicrohttpd: %s", text);
}

/* Give a listening socket to a daemon of libmicrohttpd, which then owns it. */
static fed_status start_daemon(http *h, fedserver_listener kind, int fd, uint32_t limit,
                               fed_error *err) {
    listener *l = &h->listeners[kind];
    unsigned flags = MHD_USE_TLS | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    if (h->log != NULL && h->log->level <= FED_LOG_DEBUG) {
        flags |= MHD_USE_ERROR_LOG;
    }
    *l = (listener){.http = h, .kind = kind};
    l->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, l, MHD_OPTION_EXTERNAL_LOGGER, on_log, (void *)h->log,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)limit,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)(limit - limit / 4),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)STALL_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_peer,
        l, MHD_OPTION_URI_LOG_CALLBACK, on_uri, l, MHD_OPTION_NOTIFY_COMPLETED, on_completed, l,
        MHD_OPTION_HTTPS_PRIORITIES,
        kind == FEDSERVER_FRONT ? HTTP_TLS_PRIORITY_FRONT : HTTP_TLS_PRIORITY,
        MHD_OPTION_HTTPS_MEM_CERT, h->tls.certificate, MHD_OPTION_HTTPS_MEM_KEY, h->tls.key,
        kind == FEDSERVER_DEVICES ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, h->tls.ca,
        MHD_OPTION_END);
    if (l->daemon == NULL) { /* it may have closed the socket, or not: the program ends anyway */
        return fed_fail(err, FED_ENOMEM, "libmicrohttpd can't start: out of memory or open files");
    }
    l->epoll_fd = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return FED_OK;
}

static bool serves(const fedserver_http_options *options, int kind) {
    return options->doors == FEDSERVER_DOORS_BOTH ||
           (options->doors == FEDSERVER_DOOR_FRONT) == (kind == FEDSERVER_FRONT);
}

static fed_status open_doors(http *h, const fedserver_http_options *options, uint16_t ports[2],
                             fed_error *err) {
    FED_TRY(http_tls_load(&h->tls, fedserver_directory(h->server), err));
    const uint32_t all = http_socket_budget();
    const uint32_t front = options->doors == FEDSERVER_DOORS_BOTH ? all / 4 : all;
    const uint32_t devices = options->doors == FEDSERVER_DOORS_BOTH ? all - front : all;
    const uint32_t wanted = options->connection_limit;
    const uint32_t limits[2] = {wanted != 0 ? wanted : front, wanted != 0 ? wanted : devices};
    for (int kind = FEDSERVER_FRONT; kind <= FEDSERVER_DEVICES; kind++) {
        int fd = kind == FEDSERVER_FRONT ? options->front_socket : 0;
        if (!serves(options, kind)) {
            continue;
        }
        if (fd == 0) {
            FED_TRY(http_socket_listen(options->bind, &ports[kind], &fd, err));
        }
        FED_TRY(start_daemon(h, (fedserver_listener)kind, fd, limits[kind], err));
    }
    return FED_OK;
}

fed_status fedserver_http_listen(const char *bind, uint16_t *port, int *fd, fed_error *err) {
    return http_socket_listen(bind, port, fd, err);
}

static void close_doors(http *h) {
    h->closing = true;
    resume_all(h, &h->queue, STAGE_GONE); /* unanswered: their batch failed */
    resume_all(h, &h->held, STAGE_GONE);
    for (size_t k = 0; k < 2; k++) {
        if (h->listeners[k].daemon != NULL) {
            MHD_stop_daemon(h->listeners[k].daemon);
        }
    }
    http_peers_free(&h->peers);
    http_tls_free(&h->tls);
}

static fed_status serve(http *h, const fedserver_http_options *options, fed_error *err) {
    while (*options->stop == 0) {
        if (options->tend != NULL) {
            options->tend(options->user);
        }
        FED_TRY(turn_and_wait(h, err));
    }
    return drain(h, err);
}

fed_status fedserver_http_serve(fedserver *server, const fedserver_http_options *options,
                                const fed_log *log, fed_error *err) {
    http h = {.server = server,
              .log = log,
              .listeners = {{.epoll_fd = -1}, {.epoll_fd = -1}},
              .epoch = fedserver_epoch(server)};
    uint16_t ports[2] = {options->front_port, options->devices_port};
    h.peers = (http_peers){.tls = &h.tls, .log = log, .progress = &h.progress};
    http_peers_open(&h.peers, options->requests_per_s, options->connections);
    fed_status status = run_batch(&h, err); /* without requests: can it work at all? */
    if (status == FED_OK) {
        status = open_doors(&h, options, ports, err);
    }
    if (status == FED_OK) {
        fedserver_ports(server, ports[FEDSERVER_FRONT], ports[FEDSERVER_DEVICES]);
        if (options->ready != NULL) {
            options->ready(options->user, ports[FEDSERVER_FRONT], ports[FEDSERVER_DEVICES]);
        }
        status = serve(&h, options, err);
    }
    close_doors(&h);
    return status;
}
