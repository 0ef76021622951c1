/* The coordinator's HTTPS adapter: connects libmicrohttpd's callbacks with fedserver_handle.
 *
 * One thread runs one or two daemons (front, devices) and the coordinator. Each iteration of the
 * loop lets the daemons read and write, takes the complete requests as one batch in one
 * transaction, and waits. A request whose answer depends on no write is answered within
 * libmicrohttpd's callback. The connections of other requests are suspended until the commit or, if
 * the coordinator holds the request, for longer.
 *
 * Properties of libmicrohttpd 0.9.75 that this code depends on:
 * - With TLS and epoll, a peer that stalls in its handshake is "ready" for ever, and the library's
 *   own loop spins. The loop of http_loop.c finds by a counter (http.progress) that nothing
 *   happens.
 * - libmicrohttpd asks for a client certificate but does not verify it: http_tls.c verifies it.
 * - An answer in the first call of on_request closes the connection: answer in the second one.
 * - After on_uri it splits the query into arguments. If they do not fit into its memory, it closes
 *   the connection without an answer, at once or after half a minute.
 * - A suspended connection has no timeout, and libmicrohttpd does not notice when its peer leaves.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/http/http_exchange.h"
#include "fedserver/http/http_health.h"
#include "fedserver/http/http_socket.h"

enum {
    /* libmicrohttpd's memory for a connection, which limits a request's head. Browsers send long
     * heads; devices send short ones, but are many. */
    FRONT_POOL_BYTES = 8 * 1024,
    DEVICE_POOL_BYTES = 11 * 512,
    STALL_S = 60, /* seconds; then an inactive connection is closed */
    LEADER_WAIT_MS = 10 * 1000
};

/* Called by libmicrohttpd when a connection has opened, before its handshake, and when it has
 * closed, after all other calls for it. */
static void on_peer(void *user, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode what) {
    http_listener *l = user;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        http_peer_free(*context);
        return;
    }
    const int fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    void *session =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
    *context = http_peer_new(&l->http->peers, l, l->kind, session, fd);
    if (*context == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

/* Called by libmicrohttpd when a request's head is complete, for each piece of its body, when the
 * request is complete, and again when it is resumed. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **context) {
    (void)connection, (void)url;
    http_exchange *x = *context;
    ((http_listener *)user)->http->progress++;
    if (x == NULL) {
        return MHD_NO;
    }
    switch (x->state) {
    case STATE_HEAD:
        return http_exchange_begin(x, method, version);
    case STATE_BODY:
    case STATE_DISCARD:
        if (*len > 0) {
            const size_t piece = *len;
            *len = 0;
            return http_exchange_take(x, data, piece);
        }
        return http_exchange_end(x) || http_batch_answers(x->http, x) ? http_answer(x)
                                                                      : http_exchange_park(x);
    case STATE_ANSWER:
        return http_answer(x);
    case STATE_PARKED:
    case STATE_CUT:
    case STATE_GONE:
        break;
    }
    return MHD_NO;
}

/* Replace the '&' of the query in libmicrohttpd's memory, so that libmicrohttpd parses it as one
 * argument. http_exchange_new has copied the query. */
static void join_arguments(const char *uri) {
    for (char *at = strchr(uri, '?'); at != NULL && (at = strchr(at, '&')) != NULL;) {
        *at = '+';
    }
}

/* Called by libmicrohttpd when a request line is complete. Path and query are read here, because
 * on_request gets them decoded and split. */
static void *on_uri(void *user, const char *uri, struct MHD_Connection *connection) {
    http_listener *l = user;
    http_peer *p =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    http_exchange *x = p != NULL ? http_exchange_new(l, p, connection, uri) : NULL;
    join_arguments(uri);
    l->http->live += x != NULL;
    return x;
}

/* Called by libmicrohttpd when the answer is sent, or the connection is lost. */
static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why) {
    (void)connection, (void)why;
    http *h = ((http_listener *)user)->http;
    http_exchange *x = *context;
    *context = NULL;
    if (x == NULL) {
        return;
    }
    h->live--;
    http_peer_owes(x->peer);
    if (!http_exchange_keep_cut(x)) {
        http_exchange_free(x);
    }
}

static void on_log(void *user, const char *format, va_list arguments) {
    char text[300];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    fed_logf(user, FED_LOG_DEBUG, "libmicrohttpd: %s", text);
}

static fed_status start_daemon(http *h, fedserver_listener kind, int fd, uint32_t limit,
                               fed_error *err) {
    http_listener *l = &h->listeners[kind];
    const http_tls_pair *pair = h->tls.pairs[kind];
    const size_t pool = kind == FEDSERVER_FRONT ? FRONT_POOL_BYTES : DEVICE_POOL_BYTES;
    unsigned flags = MHD_USE_TLS | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    if (h->log != NULL && h->log->level <= FED_LOG_DEBUG) {
        flags |= MHD_USE_ERROR_LOG;
    }
    /* A proxy's connections belong to many clients, so one address may have all connections. */
    const uint32_t of_one = h->peers.proxies.count > 0 ? limit : limit - limit / 4;
    *l = (http_listener){.http = h, .kind = kind};
    l->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, l, MHD_OPTION_EXTERNAL_LOGGER, on_log, (void *)h->log,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)limit,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)of_one, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        pool, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)STALL_S, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_peer, l, MHD_OPTION_URI_LOG_CALLBACK, on_uri, l,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, l, MHD_OPTION_HTTPS_PRIORITIES,
        kind == FEDSERVER_FRONT ? HTTP_TLS_PRIORITY_FRONT : HTTP_TLS_PRIORITY,
        MHD_OPTION_HTTPS_MEM_CERT, pair->certificate, MHD_OPTION_HTTPS_MEM_KEY, pair->key,
        kind == FEDSERVER_DEVICES ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, pair->ca,
        MHD_OPTION_END);
    /* libmicrohttpd may or may not have closed the socket. The program ends anyway. */
    if (l->daemon == NULL) {
        return fed_fail(err, FED_ENOMEM,
                        "libmicrohttpd can't start: out of memory or open files (ulimit -n)");
    }
    l->epoll_fd = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return FED_OK;
}

static fed_status open_doors(http *h, const fedserver_http_options *options, uint16_t ports[2],
                             fed_error *err) {
    FED_TRY(http_proxies_read(options->proxies, &h->peers.proxies, err));
    const uint32_t all = http_socket_budget();
    const uint32_t front = options->doors == FEDSERVER_DOORS_BOTH ? all / 4 : all;
    const uint32_t devices = options->doors == FEDSERVER_DOORS_BOTH ? all - front : all;
    const uint32_t wanted = options->connection_limit;
    const uint32_t limits[2] = {wanted != 0 ? wanted : front, wanted != 0 ? wanted : devices};
    for (int kind = FEDSERVER_FRONT; kind <= FEDSERVER_DEVICES; kind++) {
        int fd = kind == FEDSERVER_FRONT ? options->front_socket : 0;
        if (options->doors != FEDSERVER_DOORS_BOTH &&
            (options->doors == FEDSERVER_DOOR_FRONT) != (kind == FEDSERVER_FRONT)) {
            continue;
        }
        FED_TRY(http_tls_load(&h->tls, fedserver_directory(h->server), (fedserver_listener)kind,
                              h->log, err));
        if (fd == 0) {
            FED_TRY(fedserver_http_listen(options->bind, &ports[kind], &fd, err));
        }
        FED_TRY(start_daemon(h, (fedserver_listener)kind, fd, limits[kind], err));
    }
    return FED_OK;
}

static void close_doors(http *h) {
    h->closing = true;
    http_resume_all(h, &h->queue, STATE_GONE);
    for (http_exchange *x = http_release_first(h); x != NULL; x = http_release_first(h)) {
        http_resume(h, x, STATE_GONE);
    }
    http_pending_free(&h->pending);
    cluster_close(h->cluster);
    h->cluster = NULL;
    for (size_t k = 0; k < 2; k++) {
        if (h->listeners[k].daemon != NULL) {
            MHD_stop_daemon(h->listeners[k].daemon);
        }
    }
    http_gzip_free(&h->gzip);
    http_object_cache_free(&h->object_cache);
    http_peers_free(&h->peers);
    http_tls_free(&h->tls);
}

static void reload(http *h) {
    for (int kind = FEDSERVER_FRONT; kind <= FEDSERVER_DEVICES; kind++) {
        fed_error why = {0};
        if (h->listeners[kind].daemon == NULL) {
            continue;
        }
        if (http_tls_load(&h->tls, fedserver_directory(h->server), (fedserver_listener)kind, h->log,
                          &why) == FED_OK) {
            fed_logf(h->log, FED_LOG_INFO, "%s.pem and ca.pem were read again",
                     h->tls.pairs[kind]->name);
        } else {
            fed_logf(h->log, FED_LOG_WARN, "the certificates stay as they were: %s", why.text);
        }
    }
    http_cluster_use_keys(h);
    fedserver_certificates_changed(h->server);
    h->warned_ms = 0;
}

static fed_status serve_until_stop(http *h, const fedserver_http_options *options, fed_error *err) {
    while (*options->stop == 0) {
        enum { DAY_MS = 24 * 3600 * 1000 };
        const int64_t now_ms = fed_clock_unix_ms();
        if (options->reload != NULL && atomic_exchange(options->reload, 0) != 0) {
            reload(h);
        }
        if (h->warned_ms == 0 || now_ms - h->warned_ms >= DAY_MS || now_ms < h->warned_ms) {
            h->warned_ms = now_ms;
            http_tls_warn(&h->tls, now_ms / 1000, h->log);
        }
        if (options->tend != NULL) {
            options->tend(options->user);
        }
        FED_TRY(http_loop_iterate(h, err));
    }
    return FED_OK;
}

static fed_status serve(http *h, const fedserver_http_options *options, fed_error *err) {
    const fed_status status = serve_until_stop(h, options, err);
    if (status == FED_OK) {
        return http_loop_drain(h, err);
    }
    fedserver_let_go(h->server);
    return status;
}

/* Without a note, `fedserver health` does not ask the listener; the coordinator serves all the
 * same. */
static void note_listeners(const http *h, const fedserver_http_options *options,
                           const uint16_t ports[2]) {
    for (int kind = FEDSERVER_FRONT; kind <= FEDSERVER_DEVICES; kind++) {
        fed_error why = {0};
        if (h->listeners[kind].daemon != NULL &&
            http_health_note(fedserver_directory(h->server), (fedserver_listener)kind, options,
                             ports[kind], &why) != FED_OK) {
            fed_logf(h->log, FED_LOG_WARN,
                     "where this process serves can't be noted for fedserver health: %s", why.text);
        }
    }
}

/* A listener that ends with a failure should serve, so `fedserver health` still asks it. */
static void forget_listeners(const http *h, fed_status status) {
    for (int kind = FEDSERVER_FRONT; kind <= FEDSERVER_DEVICES; kind++) {
        if (status == FED_OK && h->listeners[kind].daemon != NULL) {
            http_health_forget(fedserver_directory(h->server), (fedserver_listener)kind);
        }
    }
}

fed_status fedserver_http_serve(fedserver *server, const fedserver_http_options *options,
                                const fed_log *log, fed_error *err) {
    http h = {.server = server,
              .log = log,
              .tls = {.shared = options->shared_tickets},
              .listeners = {{.epoll_fd = -1}, {.epoll_fd = -1}},
              .epoch = fedserver_epoch(server),
              .leader_wait_ms =
                  options->leader_wait_ms != 0 ? options->leader_wait_ms : LEADER_WAIT_MS};
    uint16_t ports[2] = {options->front_port, options->devices_port};
    h.peers = (http_peers){
        .tls = &h.tls, .log = log, .progress = &h.progress, .totals = fedserver_wire(server)};
    http_peers_open(&h.peers, options->requests_per_s, options->connections);
    fed_status status = FED_OK;
    if (options->cluster_socket != 0) {
        /* http_cluster_open comes first, because it owns the socket even after an error */
        status = http_cluster_open(&h, options->cluster_socket, err);
    }
    if (status == FED_OK) {
        /* An empty batch shows whether the coordinator works before it accepts connections. */
        status = http_batch_end(&h, err);
    }
    if (status == FED_OK) {
        status = open_doors(&h, options, ports, err);
    }
    if (status == FED_OK) {
        http_cluster_use_keys(&h);
        fedserver_ports(server, ports[FEDSERVER_FRONT], ports[FEDSERVER_DEVICES]);
        note_listeners(&h, options, ports);
        if (options->ready != NULL) {
            options->ready(options->user, ports[FEDSERVER_FRONT], ports[FEDSERVER_DEVICES]);
        }
        status = serve(&h, options, err);
    }
    forget_listeners(&h, status);
    close_doors(&h);
    return status;
}
