/* For tests of the HTTPS adapter: a fake coordinator behind it, friendly and hostile clients in
 * front. This header defines the library's fedserver_ functions that the adapter calls, so only one
 * file of a program may include it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HTTP_WORLD_H
#define TESTS_HTTP_WORLD_H

#include "fed_curl.h"
#include "fed_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fedserver/http.h"

/* ---- the fake coordinator: a request's path says what to do ------------------------------- */

enum { SMALL = 1024, BIG_BLOB = 3000000 };

struct fedserver {
    char directory[256];
    atomic_int handled, waiting, ticks, reloads, let_go;
    atomic_int parts;
    uint8_t known[FED_SHA256_SIZE]; /* of the device that sends to /parts */
    atomic_bool released, commit_fails, tick_waits;
    atomic_ullong epoch, woken; /* woken: the key that fedserver_woken returns once */
    bool begun, inside;         /* inside: a batch is open */
    bool asked, writing;
    fedserver_blob *big;
    atomic_bool follows;
    _Atomic(const char *) leader;
    atomic_ullong term;
    atomic_uint followers;
    atomic_ullong limit, heard_limit; /* largest update in bytes: our own limit, and the leader's */
    _Atomic(const char *) tag;
};

static inline fedserver_blob *text_blob(const char *text) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, text, strlen(text));
    return fedserver_blob_new(&w);
}

int fedserver_body_refused(fedserver *server, const fedserver_request *head, uint64_t len) {
    assert_true(server->begun);
    if (strcmp(head->path, "/forbidden") == 0) {
        return 403;
    }
    if (atomic_load(&server->heard_limit) != 0 && len > atomic_load(&server->heard_limit)) {
        return 503;
    }
    return strcmp(head->path, "/small") == 0 && len > SMALL ? 413 : 0;
}

fedserver_wire_totals *fedserver_wire(fedserver *server) {
    /* each server serves in a thread of its own */
    static _Thread_local fedserver_wire_totals totals;
    (void)server;
    return &totals;
}

const char *fedserver_methods(const fedserver_request *head) {
    return strcmp(head->path, "/no") == 0 ? "GET, HEAD" : "";
}

bool fedserver_body_in_parts(const fedserver_request *head) {
    return strcmp(head->path, "/parts") == 0;
}

bool fedserver_relays(const fedserver_request *head) {
    return strcmp(head->path, "/v1/status") == 0;
}

bool fedserver_follows(const fedserver *server, const char **leader, uint64_t *term) {
    const char *address = atomic_load(&server->leader);
    *leader = address != NULL ? address : "";
    *term = atomic_load(&server->term);
    return atomic_load(&server->follows);
}

void fedserver_followers(fedserver *server, uint32_t count) {
    atomic_store(&server->followers, count);
}

uint64_t fedserver_update_limit(const fedserver *server) {
    return atomic_load(&server->limit);
}

void fedserver_update_limit_heard(fedserver *server, uint64_t bytes) {
    atomic_store(&server->heard_limit, bytes);
}

bool fedserver_front_asks(fedserver *server, fedserver_question *question) {
    (void)server, (void)question;
    return false;
}

void fedserver_front_answer(fedserver *server, const fedserver_question *question,
                            const fedserver_response *response) {
    (void)server, (void)question, (void)response;
}

fed_status fedserver_begin(fedserver *server, fed_error *err) {
    (void)err;
    assert_false(server->inside);
    server->begun = server->inside = true;
    server->asked = server->writing = false;
    return FED_OK;
}

static inline void answer_hold(fedserver *server, const fedserver_request *request,
                               fedserver_response *response) {
    const int64_t wanted_ms = strtol(request->query, NULL, 10);
    if (!atomic_load(&server->released) && request->waited_ms < wanted_ms) {
        atomic_fetch_add(&server->waiting, 1);
        response->hold = true;
        response->hold_ms = (uint32_t)wanted_ms;
        const char *key = strstr(request->query, "key=");
        response->hold_key = key != NULL ? strtoull(key + 4, NULL, 10) : 0;
        return;
    }
    response->body = text_blob("held");
}

static inline void answer_who(const fedserver_request *request, fedserver_response *response) {
    char hex[FED_SHA256_HEX] = "nobody";
    if (request->fingerprint != NULL) {
        fed_hex(request->fingerprint, FED_SHA256_SIZE, hex);
    }
    response->body = text_blob(hex);
}

static inline void answer_from(const fedserver_request *request, fedserver_response *response) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "%s, %s", request->loopback ? "this machine" : "elsewhere",
                     request->cookie != NULL ? request->cookie : "-");
    response->body = fedserver_blob_new(&w);
}

static inline void answer_echo(const fedserver_request *request, fedserver_response *response) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "%s %s?%s %s %zu ", request->method, request->path, request->query,
                     request->bearer != NULL ? request->bearer : "-", request->body_len);
    fed_write_bytes(&w, request->body, request->body_len);
    response->body = fedserver_blob_new(&w);
}

static inline void answer_range(const fedserver_request *request, fedserver_response *response) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "%s %s", request->range != NULL ? request->range : "-",
                     request->if_range != NULL ? request->if_range : "-");
    response->status = 206;
    snprintf(response->etag, sizeof response->etag, "\"name\"");
    snprintf(response->content_range, sizeof response->content_range, "bytes 5-6/7");
    response->body = fedserver_blob_new(&w);
}

static inline bool is_promise(const char *path) {
    return strcmp(path, "/promise") == 0;
}

static inline void take_parts(fedserver *server, const fedserver_request *request) {
    assert_string_equal(request->method, "POST");
    assert_memory_equal(request->fingerprint, server->known, sizeof server->known);
    for (size_t k = 0; k < request->body_len; k++) {
        assert_int_equal(request->body[k], 'p');
    }
    atomic_fetch_add(&server->parts, (int)request->body_len);
}

fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) {
    (void)now_ms;
    assert_true(server->inside);
    assert_false(atomic_load(&server->follows));
    assert_true(request->wire_bytes > request->body_len);
    atomic_fetch_add(&server->handled, 1);
    if (strcmp(request->path, "/broken") == 0) {
        return fed_fail(err, FED_EIO, "the disk is gone");
    }
    server->asked = true;
    server->writing = server->writing || is_promise(request->path);
    response->status = 200;
    response->content_type = "application/json";
    if (strcmp(request->path, "/hold") == 0) {
        answer_hold(server, request, response);
    } else if (strcmp(request->path, "/wake") == 0) {
        atomic_store(&server->released, true);
        atomic_fetch_add(&server->epoch, 1);
    } else if (strcmp(request->path, "/who") == 0) {
        answer_who(request, response);
    } else if (strcmp(request->path, "/big") == 0) {
        response->body = fedserver_blob_share(server->big);
    } else if (strcmp(request->path, "/model") == 0) {
        snprintf(response->etag, sizeof response->etag, "%s", atomic_load(&server->tag));
        response->body = fedserver_blob_share(server->big);
    } else if (strcmp(request->path, "/later") == 0) {
        response->status = 503;
        response->retry_after_s = 7;
    } else if (strncmp(request->path, "/kept", 5) == 0) {
        response->immutable = true;
        response->status = strcmp(request->path, "/kept") == 0 ? 200 : 404;
        response->body = text_blob("for ever");
    } else if (strcmp(request->path, "/range") == 0) {
        answer_range(request, response);
    } else if (strcmp(request->path, "/parts") == 0) {
        take_parts(server, request);
    } else if (strcmp(request->path, "/from") == 0) {
        answer_from(request, response);
    } else if (strcmp(request->path, "/cookie") == 0) {
        response->status = 401;
        snprintf(response->set_cookie, sizeof response->set_cookie, "a=b; Secure");
        snprintf(response->file_name, sizeof response->file_name, "x.csv");
    } else if (strcmp(request->path, "/long") == 0) {
        char text[4000 + 1];
        memset(text, 'l', sizeof text - 1);
        text[sizeof text - 1] = '\0';
        snprintf(response->etag, sizeof response->etag, "W/\"long\"");
        response->body = text_blob(text);
    } else if (strcmp(request->path, "/no") == 0) {
        response->status = 405;
        response->body = text_blob("no");
    } else if (strcmp(request->path, "/page") == 0) {
        response->content_type = "text/html; charset=utf-8";
        response->body = text_blob("<!DOCTYPE html>");
    } else {
        answer_echo(request, response);
    }
    return FED_OK;
}

fed_status fedserver_tick(fedserver *server, int64_t now_ms, int64_t *next_ms, fed_error *err) {
    (void)err;
    assert_true(server->inside);
    atomic_fetch_add(&server->ticks, 1);
    while (server->asked && atomic_load(&server->tick_waits)) {
        fed_sleep_ms(1);
    }
    *next_ms = now_ms + 1000;
    return FED_OK;
}

fed_status fedserver_commit(fedserver *server, fed_error *err) {
    assert_true(server->inside);
    const bool fails = server->writing && atomic_load(&server->commit_fails);
    server->inside = false;
    return fails ? fed_fail(err, FED_EIO, "the disk failed") : FED_OK;
}

bool fedserver_settled(const fedserver *server) {
    assert_true(server->inside);
    return !server->writing;
}

void fedserver_let_go(fedserver *server) {
    atomic_fetch_add(&server->let_go, 1);
}

uint64_t fedserver_epoch(const fedserver *server) {
    return atomic_load(&server->epoch);
}

uint64_t fedserver_woken(fedserver *server) {
    assert_false(server->inside);
    return atomic_exchange(&server->woken, 0);
}

int fedserver_wake_fd(const fedserver *server) {
    (void)server;
    return -1;
}

const char *fedserver_directory(const fedserver *server) {
    return server->directory;
}

void fedserver_certificates_changed(fedserver *server) {
    atomic_fetch_add(&server->reloads, 1);
}

void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port) {
    (void)server;
    assert_true(front_port != 0 && devices_port != 0);
}

/* ---- the world: certificates, and the adapter in a thread ---------------------------------- */

typedef struct world {
    fedserver server;
    fed_pem ca_key, ca;
    fed_identity device;
    fedserver_http_options options;
    atomic_int stop, reload;
    uint16_t front_port, devices_port;
    atomic_bool ready, over;
    fed_status status;
    fed_error err;
    pthread_t thread;
    bool joined;
} world;

static inline void make_ca(const char *name, fed_pem *key, fed_pem *cert) {
    fed_error err = {0};
    const int64_t now = time(NULL);
    assert_fed_ok_err(fed_key_new(key, &err));
    assert_fed_ok_err(fed_ca_new(key, name, now - 864000, now + 864000, cert, &err));
}

static inline void make_usual(const world *w, fed_cert_purpose purpose, fed_identity *who) {
    const int64_t now = time(NULL);
    fed_identity_make(&w->ca_key, &w->ca, purpose, now - 3600, now + 86400, who);
}

static inline void write_pem(const world *w, const char *name, const fed_pem *pem) {
    char path[512];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", w->server.directory, name);
    assert_fed_ok_err(fed_file_replace(path, pem->text, strlen(pem->text), 0600, &err));
}

static inline fedserver_blob *big_blob(char value) {
    fed_writer big;
    fed_writer_growing(&big);
    memset(fed_writer_reserve(&big, BIG_BLOB), value, BIG_BLOB);
    fed_writer_advance(&big, BIG_BLOB);
    return fedserver_blob_new(&big);
}

static inline int setup(void **state) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->server.directory, sizeof w->server.directory);
    make_ca("our CA", &w->ca_key, &w->ca);
    fed_identity server;
    make_usual(w, FED_CERT_SERVER, &server);
    make_usual(w, FED_CERT_CLIENT, &w->device);
    write_pem(w, "ca.pem", &w->ca);
    write_pem(w, "server.pem", &server.cert);
    write_pem(w, "server.key", &server.key);
    w->server.big = big_blob('b');
    *state = w;
    return 0;
}

static inline int teardown(void **state) {
    world *w = *state;
    fedserver_blob_free(w->server.big);
    fed_test_rmdir(w->server.directory);
    free(w);
    curl_global_cleanup();
    return 0;
}

static inline void on_ready(void *user, uint16_t front_port, uint16_t devices_port) {
    world *w = user;
    w->front_port = front_port;
    w->devices_port = devices_port;
    atomic_store(&w->ready, true);
}

static inline void *serve(void *user) {
    world *w = user;
    w->status = fedserver_http_serve(&w->server, &w->options, NULL, &w->err);
    atomic_store(&w->over, true);
    return NULL;
}

static inline void start(world *w) {
    w->stop = 0;
    w->server.begun = w->server.inside = false;
    if (w->options.bind == NULL) {
        w->options.bind = "127.0.0.1";
    }
    if (w->options.connections == 0) {
        w->options.connections = 1000;
    }
    w->options.stop = &w->stop;
    w->options.reload = &w->reload;
    w->options.ready = on_ready;
    w->options.user = w;
    atomic_store(&w->ready, false);
    atomic_store(&w->over, false);
    atomic_store(&w->server.released, false);
    atomic_store(&w->server.handled, 0);
    atomic_store(&w->server.waiting, 0);
    assert_int_equal(pthread_create(&w->thread, NULL, serve, w), 0);
    while (!atomic_load(&w->ready) && !atomic_load(&w->over)) {
        fed_sleep_ms(1);
    }
}

static inline void join(world *w) {
    assert_int_equal(pthread_join(w->thread, NULL), 0);
}

static inline void finish(world *w) {
    w->stop = 1;
    join(w);
    if (w->status != FED_OK) {
        fail_msg("%s", w->err.text);
    }
}

static inline int begin_serving(void **state) {
    start(*state);
    return 0;
}

static inline int end_serving(void **state) {
    finish(*state);
    return 0;
}

/* A test during which the adapter serves. */
#define SERVING(test) cmocka_unit_test_setup_teardown(test, begin_serving, end_serving)

static inline int64_t server_cpu_us(const world *w) {
    clockid_t clock;
    struct timespec t;
    assert_int_equal(pthread_getcpuclockid(w->thread, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Return the CPU use of the adapter's thread while the test sleeps, in percent of a core. */
static inline int64_t server_load_percent(const world *w) {
    fed_sleep_ms(200); /* let requests under way end */
    const int64_t cpu_us = server_cpu_us(w);
    const int64_t begin_ms = fed_clock_monotonic_ms();
    fed_sleep_ms(1000);
    return (server_cpu_us(w) - cpu_us) / 10 / (fed_clock_monotonic_ms() - begin_ms);
}

static inline void wait_for(const atomic_int *value, int wanted) {
    for (int k = 0; k < 10000 && atomic_load(value) < wanted; k++) {
        fed_sleep_ms(1);
    }
    assert_true(atomic_load(value) >= wanted);
}

/* ---- the client ------------------------------------------------------------------------------ */

static inline CURL *client(const world *w, const fed_identity *who, uint16_t port,
                           const char *path) {
    return fed_curl_new(&w->ca, who, port, path);
}

/* Make one request. line: an additional header, or NULL. */
static inline fed_reply ask_once(const world *w, const fed_identity *who, uint16_t port,
                                 const char *path, const char *line) {
    CURL *curl = client(w, who, port, path);
    if (line != NULL) {
        fed_curl_header(curl, line);
    }
    fed_reply r = fed_curl_ask(curl);
    fed_curl_close(curl);
    return r;
}

/* Return the answer to GET path at the front. line: an additional header, or NULL. */
static inline fed_reply ask_front(const world *w, const char *path, const char *line) {
    return ask_once(w, NULL, w->front_port, path, line);
}

static inline void assert_works(const world *w) {
    fed_reply r = ask_front(w, "/works", NULL);
    fed_reply_assert(&r, 200, "GET /works? - 0");
}

static inline void assert_header(const fed_reply *r, const char *line) {
    if (strstr(fed_reply_text(&r->headers), line) == NULL) {
        fail_msg("the header \"%s\" is missing in: %s", line, fed_reply_text(&r->headers));
    }
}

/* Send a large body `times` times, and check the echoes. curl: a handle for /echo. */
static inline void assert_echoes_large(CURL *curl, unsigned times) {
    enum { SIZE = 1700000 };
    char *body = malloc(SIZE);
    assert_non_null(body);
    for (size_t k = 0; k < SIZE; k++) {
        body[k] = (char)('a' + k % 23);
    }
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)SIZE);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    for (unsigned k = 0; k < times; k++) {
        fed_reply r = fed_curl_ask(curl);
        assert_int_equal(r.code, CURLE_OK);
        assert_int_equal(r.status, 200);
        const char *echoed = strstr(fed_reply_text(&r.body), " 1700000 ");
        assert_non_null(echoed);
        assert_memory_equal(echoed + 9, body, SIZE);
        fed_reply_free(&r);
    }
    free(body);
}

static inline int listening(uint16_t *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Record a ClientHello of libcurl. */
static inline size_t client_hello(const world *w, uint8_t *dst, size_t cap) {
    uint16_t port = 0;
    const int fd = listening(&port);
    CURL *curl = client(w, NULL, port, "/");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 200L);
    assert_int_equal(curl_easy_perform(curl), CURLE_OPERATION_TIMEDOUT);
    curl_easy_cleanup(curl);
    const int from = accept(fd, NULL, NULL);
    const ssize_t len = recv(from, dst, cap, 0);
    close(from);
    close(fd);
    assert_true(len > 100);
    return (size_t)len;
}

static inline CURL *raw(const world *w, const fed_identity *who, uint16_t port) {
    return fed_curl_raw(&w->ca, who, port);
}

#endif
