/* The HTTPS adapter, with a coordinator made up for the purpose below it and libcurl above. */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "fed_test.h"

#include <arpa/inet.h>
#include <curl/curl.h>
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

/* ---- the coordinator below: what it is asked to do stands in the path ------------------------ */

enum { SMALL = 1024, BIG_BLOB = 3000000 };

struct fedserver {
    char directory[256];
    atomic_int handled, waiting, ticks;
    atomic_bool released, commit_fails;
    atomic_ullong epoch;
    bool begun, inside; /* a batch has ever been, is open */
    fedserver_blob *big;
};

static fedserver_blob *text_blob(const char *text) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, text, strlen(text));
    return fedserver_blob_new(&w);
}

int fedserver_body_refused(const fedserver *server, const fedserver_request *head, uint64_t len) {
    assert_true(server->begun);
    if (strcmp(head->path, "/forbidden") == 0) {
        return 403;
    }
    return strcmp(head->path, "/small") == 0 && len > SMALL ? 413 : 0;
}

fed_status fedserver_begin(fedserver *server, fed_error *err) {
    (void)err;
    assert_false(server->inside);
    server->begun = server->inside = true;
    return FED_OK;
}

static void answer_hold(fedserver *server, const fedserver_request *request,
                        fedserver_response *response) {
    const int64_t wanted_ms = strtol(request->query, NULL, 10);
    if (!atomic_load(&server->released) && request->waited_ms < wanted_ms) {
        atomic_fetch_add(&server->waiting, 1);
        response->hold = true;
        response->hold_ms = (uint32_t)wanted_ms;
        return;
    }
    response->body = text_blob("held");
}

static void answer_who(const fedserver_request *request, fedserver_response *response) {
    char hex[FED_SHA256_HEX] = "nobody";
    if (request->fingerprint != NULL) {
        fed_hex(request->fingerprint, FED_SHA256_SIZE, hex);
    }
    response->body = text_blob(hex);
}

static void answer_echo(const fedserver_request *request, fedserver_response *response) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "%s %s?%s %s %zu ", request->method, request->path, request->query,
                     request->bearer != NULL ? request->bearer : "-", request->body_len);
    fed_write_bytes(&w, request->body, request->body_len);
    response->body = fedserver_blob_new(&w);
}

fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) {
    (void)now_ms, (void)err;
    assert_true(server->inside);
    assert_true(request->wire_bytes > request->body_len);
    atomic_fetch_add(&server->handled, 1);
    response->status = 200;
    response->content_type = "application/json";
    if (strcmp(request->path, "/hold") == 0) {
        answer_hold(server, request, response);
    } else if (strcmp(request->path, "/who") == 0) {
        answer_who(request, response);
    } else if (strcmp(request->path, "/big") == 0) {
        response->body = fedserver_blob_share(server->big);
    } else if (strcmp(request->path, "/later") == 0) {
        response->status = 503;
        response->retry_after_s = 7;
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
    *next_ms = now_ms + 1000;
    return FED_OK;
}

fed_status fedserver_commit(fedserver *server, fed_error *err) {
    assert_true(server->inside);
    server->inside = false;
    if (atomic_load(&server->commit_fails)) {
        return fed_fail(err, FED_EIO, "the disk is on fire");
    }
    return FED_OK;
}

uint64_t fedserver_epoch(const fedserver *server) {
    return atomic_load(&server->epoch);
}

const char *fedserver_directory(const fedserver *server) {
    return server->directory;
}

void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port) {
    (void)server;
    assert_true(front_port != 0 && devices_port != 0);
}

/* ---- the world: certificates, the adapter in a thread ---------------------------------------- */

typedef struct identity {
    fed_pem key, cert;
} identity;

typedef struct world {
    fedserver server;
    fed_pem ca_key, ca;
    identity device;
    fedserver_http_options options;
    volatile sig_atomic_t stop;
    uint16_t front_port, devices_port;
    atomic_bool ready, over;
    fed_status status;
    fed_error err;
    pthread_t thread;
    bool joined;
} world;

static void make_ca(const char *name, fed_pem *key, fed_pem *cert) {
    fed_error err = {0};
    const int64_t now = time(NULL);
    assert_fed_ok_err(fed_key_new(key, &err));
    assert_fed_ok_err(fed_ca_new(key, name, now - 864000, now + 864000, cert, &err));
}

static void make_identity(const fed_pem *ca_key, const fed_pem *ca, fed_cert_purpose purpose,
                          int64_t from, int64_t until, identity *who) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", NULL};
    fed_error err = {0};
    fed_pem csr;
    const fed_cert_options options = {.purpose = purpose,
                                      .common_name = "test",
                                      .hosts = purpose == FED_CERT_SERVER ? hosts : NULL,
                                      .not_before = from,
                                      .not_after = until};
    assert_fed_ok_err(fed_key_new(&who->key, &err));
    assert_fed_ok_err(fed_csr_new(&who->key, "test", &csr, &err));
    assert_fed_ok_err(fed_cert_issue(ca_key, ca, csr.text, &options, &who->cert, &err));
}

static void make_usual(const world *w, fed_cert_purpose purpose, identity *who) {
    const int64_t now = time(NULL);
    make_identity(&w->ca_key, &w->ca, purpose, now - 3600, now + 86400, who);
}

static void write_pem(const world *w, const char *name, const fed_pem *pem) {
    char path[512];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", w->server.directory, name);
    assert_fed_ok_err(fed_file_replace(path, pem->text, strlen(pem->text), 0600, &err));
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->server.directory, sizeof w->server.directory);
    make_ca("our CA", &w->ca_key, &w->ca);
    identity server;
    make_usual(w, FED_CERT_SERVER, &server);
    make_usual(w, FED_CERT_CLIENT, &w->device);
    write_pem(w, "ca.pem", &w->ca);
    write_pem(w, "server.pem", &server.cert);
    write_pem(w, "server.key", &server.key);
    fed_writer big;
    fed_writer_growing(&big);
    memset(fed_writer_reserve(&big, BIG_BLOB), 'b', BIG_BLOB);
    fed_writer_advance(&big, BIG_BLOB);
    w->server.big = fedserver_blob_new(&big);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedserver_blob_free(w->server.big);
    fed_test_rmdir(w->server.directory);
    free(w);
    return 0;
}

static void on_ready(void *user, uint16_t front_port, uint16_t devices_port) {
    world *w = user;
    w->front_port = front_port;
    w->devices_port = devices_port;
    atomic_store(&w->ready, true);
}

static void *serve(void *user) {
    world *w = user;
    w->status = fedserver_http_serve(&w->server, &w->options, NULL, &w->err);
    atomic_store(&w->over, true);
    return NULL;
}

static void start(world *w) {
    w->stop = 0;
    w->server.begun = false;
    if (w->options.bind == NULL) {
        w->options.bind = "127.0.0.1";
    }
    w->options.stop = &w->stop;
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

static void join(world *w) {
    assert_int_equal(pthread_join(w->thread, NULL), 0);
}

static void finish(world *w) {
    w->stop = 1;
    join(w);
    if (w->status != FED_OK) {
        fail_msg("%s", w->err.text);
    }
}

/* CPU time that the adapter's thread has used. */
static int64_t server_cpu_us(const world *w) {
    clockid_t clock;
    struct timespec t;
    assert_int_equal(pthread_getcpuclockid(w->thread, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* What the adapter's thread burns of a core, in percent, while we do nothing. */
static int64_t server_load_percent(const world *w) {
    fed_sleep_ms(200); /* what is under way may end */
    const int64_t cpu_us = server_cpu_us(w);
    const int64_t begin_ms = fed_clock_monotonic_ms();
    fed_sleep_ms(1000);
    return (server_cpu_us(w) - cpu_us) / 10 / (fed_clock_monotonic_ms() - begin_ms);
}

static void wait_for(const atomic_int *value, int wanted) {
    for (int k = 0; k < 10000 && atomic_load(value) < wanted; k++) {
        fed_sleep_ms(1);
    }
    assert_true(atomic_load(value) >= wanted);
}

/* ---- the client above ------------------------------------------------------------------------ */

typedef struct reply {
    CURLcode code;
    long status;
    fed_writer body, headers;
} reply;

static size_t collect(char *data, size_t size, size_t n, void *user) {
    fed_write_bytes(user, data, size * n);
    return size * n;
}

static struct curl_blob blob(const fed_pem *pem) {
    return (struct curl_blob){.data = (void *)pem->text, .len = strlen(pem->text)};
}

static void set_url(CURL *curl, uint16_t port, const char *path) {
    char url[256];
    snprintf(url, sizeof url, "https://127.0.0.1:%u%s", port, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
}

/* who: NULL for no certificate. */
static CURL *client(const world *w, const identity *who, uint16_t port, const char *path) {
    CURL *curl = curl_easy_init();
    assert_non_null(curl);
    struct curl_blob ca = blob(&w->ca);
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &ca);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 60000L);
    if (who != NULL) {
        struct curl_blob cert = blob(&who->cert);
        struct curl_blob key = blob(&who->key);
        curl_easy_setopt(curl, CURLOPT_SSLCERT_BLOB, &cert);
        curl_easy_setopt(curl, CURLOPT_SSLKEY_BLOB, &key);
    }
    set_url(curl, port, path);
    return curl;
}

static void listen_to(CURL *curl, reply *r) {
    fed_writer_growing(&r->body);
    fed_writer_growing(&r->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &r->body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &r->headers);
}

static void conclude(CURL *curl, CURLcode code, reply *r) {
    r->code = code;
    r->status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &r->status);
    fed_write_u8(&r->body, 0);
    fed_write_u8(&r->headers, 0);
}

static reply ask(CURL *curl) {
    reply r;
    listen_to(curl, &r);
    conclude(curl, curl_easy_perform(curl), &r);
    return r;
}

static const char *text(const fed_writer *w) {
    return (const char *)w->data;
}

static void forget(reply *r) {
    fed_writer_free(&r->body);
    fed_writer_free(&r->headers);
}

static void assert_answer(reply *r, long status, const char *part_of_body) {
    if (r->code != CURLE_OK) {
        fail_msg("curl: %s", curl_easy_strerror(r->code));
    }
    assert_int_equal(r->status, status);
    if (strstr(text(&r->body), part_of_body) == NULL) {
        fail_msg("no \"%s\" in: %s", part_of_body, text(&r->body));
    }
    forget(r);
}

static void assert_works(const world *w) {
    CURL *curl = client(w, NULL, w->front_port, "/works");
    reply r = ask(curl);
    assert_answer(&r, 200, "GET /works? - 0");
    curl_easy_cleanup(curl);
}

/* A bare TCP connection. */
static int dial(uint16_t port) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int listening(uint16_t *port) {
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

/* The first flight of a TLS client, as libcurl makes it. */
static size_t client_hello(const world *w, uint8_t *dst, size_t cap) {
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

/* A TLS connection on which we say what we like. */
static CURL *raw(const world *w, const identity *who, uint16_t port) {
    CURL *curl = client(w, who, port, "/");
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    return curl;
}

static void say(CURL *curl, const char *words) {
    size_t sent = 0;
    assert_int_equal(curl_easy_send(curl, words, strlen(words), &sent), CURLE_OK);
    assert_int_equal(sent, strlen(words));
}

/* What comes until `end` is among it, or the connection closes. */
static void hear(CURL *curl, const char *end, char *dst, size_t cap) {
    size_t len = 0;
    dst[0] = '\0';
    for (int k = 0; k < 10000 && len + 1 < cap && strstr(dst, end) == NULL; k++) {
        size_t n = 0;
        const CURLcode code = curl_easy_recv(curl, dst + len, cap - len - 1, &n);
        if (code == CURLE_AGAIN) {
            fed_sleep_ms(1);
            continue;
        }
        if (code != CURLE_OK || n == 0) {
            return;
        }
        len += n;
        dst[len] = '\0';
    }
}

/* ---- requests and answers -------------------------------------------------------------------- */

static void test_a_request_and_its_answer_pass_through_unchanged(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, NULL, w->front_port, "/v1/echo?a=1&b=%20");
    struct curl_slist *headers = curl_slist_append(NULL, "Authorization: Bearer tok-en");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "some body");
    reply r = ask(curl);
    assert_non_null(strstr(text(&r.headers), "Content-Type: application/json"));
    assert_non_null(strstr(text(&r.headers), "Cache-Control: no-store"));
    assert_answer(&r, 200, "POST /v1/echo?a=1&b=%20 tok-en 9 some body");
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_large_body_arrives_whole(void **state) {
    world *w = *state;
    start(w);
    enum { SIZE = 1700000 };
    char *body = malloc(SIZE);
    for (size_t k = 0; k < SIZE; k++) {
        body[k] = (char)('a' + k % 23);
    }
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)SIZE);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    reply r = ask(curl);
    assert_int_equal(r.code, CURLE_OK);
    const char *echoed = strstr(text(&r.body), " 1700000 ");
    assert_non_null(echoed);
    assert_memory_equal(echoed + 9, body, SIZE);
    forget(&r);
    free(body);
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_large_answer_arrives_whole(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/big");
    for (int k = 0; k < 3; k++) {
        reply r = ask(curl);
        assert_int_equal(r.code, CURLE_OK);
        assert_int_equal(r.body.len, BIG_BLOB + 1);
        forget(&r);
    }
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_connection_carries_many_requests(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "x");
    for (int k = 0; k < 20; k++) {
        reply r = ask(curl);
        long connects = 0;
        curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &connects);
        assert_int_equal(connects, k == 0 ? 1 : 0);
        assert_null(strstr(text(&r.headers), "Connection: close"));
        assert_answer(&r, 200, "POST /echo?");
    }
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_pipelined_requests_are_all_answered(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, NULL, w->front_port);
    say(curl, "GET /one HTTP/1.1\r\nHost: x\r\n\r\nGET /two HTTP/1.1\r\nHost: x\r\n\r\n");
    char heard[2048];
    hear(curl, "/two?", heard, sizeof heard);
    assert_non_null(strstr(heard, "/one?"));
    assert_non_null(strstr(heard, "/two?"));
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_retry_after_is_passed_on(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, NULL, w->front_port, "/later");
    reply r = ask(curl);
    assert_non_null(strstr(text(&r.headers), "Retry-After: 7"));
    assert_answer(&r, 503, "");
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_page_may_load_nothing_from_elsewhere(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, NULL, w->front_port, "/page");
    reply r = ask(curl);
    assert_non_null(strstr(text(&r.headers), "Content-Security-Policy: default-src 'none'"));
    assert_non_null(strstr(text(&r.headers), "X-Content-Type-Options: nosniff"));
    assert_answer(&r, 200, "<!DOCTYPE html>");
    curl_easy_cleanup(curl);
    finish(w);
}

/* ---- refused bodies -------------------------------------------------------------------------- */

static void test_a_body_that_is_too_large_gets_its_413(void **state) {
    world *w = *state;
    start(w);
    char body[20000];
    memset(body, 'x', sizeof body);
    CURL *curl = client(w, NULL, w->front_port, "/small");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)sizeof body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    for (int k = 0; k < 5; k++) {
        reply r = ask(curl);
        assert_non_null(strstr(text(&r.headers), "application/json"));
        assert_answer(&r, 413, "{\"error\": \"too_large\", \"message\": \"");
    }
    assert_int_equal(atomic_load(&w->server.handled), 0);
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_body_of_an_unknown_device_gets_its_403(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/forbidden");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "x");
    reply r = ask(curl);
    assert_answer(&r, 403, "{\"error\": \"device_unknown\", \"message\": \"");
    assert_int_equal(atomic_load(&w->server.handled), 0);
    curl_easy_cleanup(curl);
    finish(w);
}

static size_t give_zeros(char *dst, size_t size, size_t n, void *user) {
    (void)user;
    memset(dst, 0, size * n);
    return size * n;
}

static void test_who_asks_before_sending_need_not_send(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/small");
    struct curl_slist *headers = curl_slist_append(NULL, "Expect: 100-continue");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 30000L);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)1 << 40);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_zeros);
    reply r = ask(curl);
    curl_off_t sent = -1;
    curl_easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &sent);
    assert_int_equal(sent, 0);
    assert_answer(&r, 413, "too_large");
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_chunked_body_is_refused(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, NULL, w->front_port);
    say(curl, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    char heard[2048];
    hear(curl, "length_required", heard, sizeof heard);
    assert_non_null(strstr(heard, "HTTP/1.1 411 "));
    assert_non_null(strstr(heard, "length_required"));
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_broken_upload_harms_nobody(void **state) {
    world *w = *state;
    start(w);
    for (int k = 0; k < 10; k++) {
        CURL *curl = raw(w, &w->device, w->devices_port);
        say(curl, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nsome of it");
        curl_easy_cleanup(curl);
    }
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), 1);
}

static void test_slow_bodies_block_nobody(void **state) {
    world *w = *state;
    start(w);
    enum { SLOW = 20 };
    CURL *slow[SLOW];
    for (int k = 0; k < SLOW; k++) {
        slow[k] = raw(w, &w->device, w->devices_port);
        say(slow[k], "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
    }
    assert_works(w);
    assert_true(server_load_percent(w) < 30);
    char heard[2048];
    for (int k = 0; k < SLOW; k++) {
        say(slow[k], "cd");
        hear(slow[k], "abcd", heard, sizeof heard);
        assert_non_null(strstr(heard, "POST /echo? - 4 abcd"));
        curl_easy_cleanup(slow[k]);
    }
    finish(w);
}

/* ---- holding --------------------------------------------------------------------------------- */

static void test_a_held_request_is_asked_again_when_its_time_is_over(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/hold?300");
    reply r = ask(curl);
    assert_null(strstr(text(&r.headers), "Connection: close"));
    assert_answer(&r, 200, "held");
    assert_int_equal(atomic_load(&w->server.handled), 2);
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_hundred_held_requests_cost_nothing_and_wake_together(void **state) {
    world *w = *state;
    start(w);
    enum { HELD = 100 };
    CURL *curl[HELD];
    reply r[HELD];
    CURLM *all = curl_multi_init();
    for (int k = 0; k < HELD; k++) {
        curl[k] = client(w, &w->device, w->devices_port, "/hold?50000");
        listen_to(curl[k], &r[k]);
        curl_multi_add_handle(all, curl[k]);
    }
    int running = HELD;
    for (int k = 0; k < 60000 && atomic_load(&w->server.waiting) < HELD; k++) {
        curl_multi_perform(all, &running);
        curl_multi_poll(all, NULL, 0, 1, NULL);
    }
    assert_int_equal(atomic_load(&w->server.waiting), HELD);
    assert_true(server_load_percent(w) < 10);
    atomic_store(&w->server.released, true);
    atomic_fetch_add(&w->server.epoch, 1);
    while (running > 0) {
        curl_multi_perform(all, &running);
        curl_multi_poll(all, NULL, 0, 100, NULL);
    }
    for (int k = 0; k < HELD; k++) {
        conclude(curl[k], CURLE_OK, &r[k]);
        assert_answer(&r[k], 200, "held");
        curl_multi_remove_handle(all, curl[k]);
        curl_easy_cleanup(curl[k]);
    }
    curl_multi_cleanup(all);
    finish(w);
}

static void test_nothing_is_given_to_a_held_peer_that_has_gone(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, &w->device, w->devices_port);
    say(curl, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    curl_easy_cleanup(curl);
    assert_works(w); /* our farewell has certainly arrived */
    const int handled = atomic_load(&w->server.handled);
    atomic_store(&w->server.released, true);
    atomic_fetch_add(&w->server.epoch, 1);
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), handled + 1);
}

static void test_stopping_sends_home_who_is_held(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, &w->device, w->devices_port);
    say(curl, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    finish(w);
    char heard[2048];
    hear(curl, "}", heard, sizeof heard);
    assert_non_null(strstr(heard, "HTTP/1.1 503 "));
    assert_non_null(strstr(heard, "Retry-After: "));
    assert_non_null(strstr(heard, "{\"error\": \"stopping\""));
    curl_easy_cleanup(curl);
}

static void test_time_passes_without_requests(void **state) {
    world *w = *state;
    start(w);
    wait_for(&w->server.ticks, atomic_load(&w->server.ticks) + 2);
    finish(w);
}

/* ---- promises -------------------------------------------------------------------------------- */

static void test_no_answer_leaves_when_the_commit_fails(void **state) {
    world *w = *state;
    start(w);
    CURL *held = raw(w, &w->device, w->devices_port);
    say(held, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    atomic_store(&w->server.commit_fails, true);
    CURL *curl = client(w, NULL, w->front_port, "/promise");
    reply r = ask(curl);
    join(w);
    assert_fed_status(w->status, FED_EIO);
    assert_string_equal(w->err.text, "the disk is on fire");
    assert_int_not_equal(r.code, CURLE_OK);
    assert_int_equal(r.status, 0);
    char heard[64];
    hear(held, "HTTP", heard, sizeof heard);
    assert_string_equal(heard, "");
    forget(&r);
    curl_easy_cleanup(curl);
    curl_easy_cleanup(held);
    atomic_store(&w->server.commit_fails, false);
}

/* ---- who may come in ------------------------------------------------------------------------- */

static void test_the_front_wants_no_certificate(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, NULL, w->front_port, "/who");
    reply r = ask(curl);
    assert_answer(&r, 200, "nobody");
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_device_is_known_by_its_fingerprint(void **state) {
    world *w = *state;
    start(w);
    fed_error err = {0};
    uint8_t digest[FED_SHA256_SIZE];
    char hex[FED_SHA256_HEX];
    assert_fed_ok_err(fed_cert_fingerprint(w->device.cert.text, digest, &err));
    fed_hex(digest, sizeof digest, hex);
    CURL *curl = client(w, &w->device, w->devices_port, "/who");
    for (int k = 0; k < 3; k++) { /* a new connection each time: resumed, or not, it is the same */
        curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
        reply r = ask(curl);
        assert_answer(&r, 200, hex);
    }
    curl_easy_cleanup(curl);
    finish(w);
}

static void assert_shut_out(world *w, const identity *who) {
    start(w);
    CURL *curl = client(w, who, w->devices_port, "/who");
    reply r = ask(curl);
    assert_int_not_equal(r.code, CURLE_OK);
    assert_int_equal(r.status, 0);
    forget(&r);
    curl_easy_cleanup(curl);
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), 1); /* that was assert_works */
}

static void test_nobody_without_a_certificate_comes_in(void **state) {
    assert_shut_out(*state, NULL);
}

static void test_a_certificate_of_another_ca_is_shut_out(void **state) {
    world *w = *state;
    fed_pem ca_key, ca;
    identity rogue;
    const int64_t now = time(NULL);
    make_ca("our CA", &ca_key, &ca); /* of the same name */
    make_identity(&ca_key, &ca, FED_CERT_CLIENT, now - 3600, now + 86400, &rogue);
    assert_shut_out(w, &rogue);
}

static void test_an_expired_certificate_is_shut_out(void **state) {
    world *w = *state;
    identity old;
    const int64_t now = time(NULL);
    make_identity(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - 7200, now - 3600, &old);
    assert_shut_out(w, &old);
}

static void test_a_certificate_that_is_not_valid_yet_is_shut_out(void **state) {
    world *w = *state;
    identity early;
    const int64_t now = time(NULL);
    make_identity(&w->ca_key, &w->ca, FED_CERT_CLIENT, now + 3600, now + 7200, &early);
    assert_shut_out(w, &early);
}

static void test_a_servers_certificate_is_shut_out(void **state) {
    world *w = *state;
    identity server;
    make_usual(w, FED_CERT_SERVER, &server);
    assert_shut_out(w, &server);
}

static void test_a_self_signed_certificate_is_shut_out(void **state) {
    world *w = *state;
    identity self;
    make_ca("test", &self.key, &self.cert);
    assert_shut_out(w, &self);
}

static void test_a_certificate_expires_under_a_living_connection(void **state) {
    world *w = *state;
    identity brief;
    const int64_t until = time(NULL) + 2;
    make_identity(&w->ca_key, &w->ca, FED_CERT_CLIENT, until - 3600, until, &brief);
    start(w);
    CURLSH *sessions = curl_share_init();
    curl_share_setopt(sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    CURL *curl = client(w, &brief, w->devices_port, "/who");
    curl_easy_setopt(curl, CURLOPT_SHARE, sessions);
    reply r = ask(curl);
    assert_answer(&r, 200, "");
    while (time(NULL) <= until) {
        fed_sleep_ms(50);
    }
    r = ask(curl); /* the same connection */
    assert_non_null(strstr(text(&r.headers), "Connection: close"));
    assert_answer(&r, 403, "certificate has expired");
    r = ask(curl); /* a new one, by the session's ticket: nothing is verified in its handshake */
    assert_answer(&r, 403, "certificate has expired");
    curl_easy_cleanup(curl);
    curl_share_cleanup(sessions);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), 1);
}

/* ---- peers that stall ------------------------------------------------------------------------ */

static void assert_stalling_costs_nothing(world *w, int peers, const uint8_t *words, size_t len) {
    int fds[64];
    start(w);
    for (int k = 0; k < peers; k++) {
        fds[k] = dial(k % 2 == 0 ? w->front_port : w->devices_port);
        assert_int_equal(send(fds[k], words, len, 0), len);
    }
    const int64_t load = server_load_percent(w);
    if (load >= 30) {
        fail_msg("%d stalled peers take %d %% of a core", peers, (int)load);
    }
    assert_works(w);
    for (int k = 0; k < peers; k++) {
        close(fds[k]);
    }
    finish(w);
}

static void test_one_byte_and_silence_costs_nothing(void **state) {
    const uint8_t first = 0x16;
    assert_stalling_costs_nothing(*state, 2, &first, 1);
}

static void test_a_client_hello_and_silence_costs_nothing(void **state) {
    uint8_t hello[4096];
    const size_t len = client_hello(*state, hello, sizeof hello);
    assert_stalling_costs_nothing(*state, 2, hello, len);
}

static void test_fifty_half_client_hellos_cost_nothing(void **state) {
    uint8_t hello[4096];
    const size_t len = client_hello(*state, hello, sizeof hello);
    assert_stalling_costs_nothing(*state, 50, hello, len / 2);
}

static void test_garbage_harms_nobody(void **state) {
    world *w = *state;
    start(w);
    static const char garbage[] = "GET / HTTP/1.0\r\n\r\n";
    int fds[8];
    for (int k = 0; k < 8; k++) {
        fds[k] = dial(k % 2 == 0 ? w->front_port : w->devices_port);
        (void)send(fds[k], garbage, sizeof garbage, MSG_NOSIGNAL);
    }
    assert_works(w);
    for (int k = 0; k < 8; k++) {
        close(fds[k]);
    }
    finish(w);
}

static void test_a_request_works_while_others_stall(void **state) {
    world *w = *state;
    uint8_t hello[4096];
    const size_t len = client_hello(w, hello, sizeof hello);
    start(w);
    int fds[50];
    for (int k = 0; k < 50; k++) {
        fds[k] = dial(w->devices_port);
        assert_int_equal(send(fds[k], hello, len / 2, 0), len / 2);
    }
    CURL *curl = client(w, &w->device, w->devices_port, "/big");
    for (int k = 0; k < 10; k++) {
        reply r = ask(curl);
        assert_int_equal(r.body.len, BIG_BLOB + 1);
        forget(&r);
    }
    curl_easy_cleanup(curl);
    for (int k = 0; k < 50; k++) {
        close(fds[k]);
    }
    finish(w);
}

/* ---- starting -------------------------------------------------------------------------------- */

static void test_a_port_in_use_is_named(void **state) {
    world *w = *state;
    uint16_t port = 0;
    const int fd = listening(&port);
    w->options.devices_port = port;
    start(w);
    join(w);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "port %u ", port);
    assert_fed_status(w->status, FED_EBUSY);
    assert_non_null(strstr(w->err.text, wanted));
    assert_non_null(strstr(w->err.text, "in use"));
    w->options.devices_port = 0;
    close(fd);
}

static void test_a_restart_finds_its_ports_free(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/who");
    reply r = ask(curl);
    assert_answer(&r, 200, "");
    w->options.front_port = w->front_port;
    w->options.devices_port = w->devices_port;
    finish(w); /* closes first, and so keeps the connection in TIME_WAIT */
    start(w);
    assert_works(w);
    finish(w);
    w->options.front_port = w->options.devices_port = 0;
    curl_easy_cleanup(curl);
}

static void test_all_addresses_are_those_of_ipv4_too(void **state) {
    world *w = *state;
    w->options.bind = "::";
    start(w);
    w->options.bind = NULL;
    if (!atomic_load(&w->ready)) {
        join(w);
        skip(); /* a machine without IPv6 */
    }
    assert_works(w);
    finish(w);
}

static void test_a_bind_address_that_is_none_is_refused(void **state) {
    world *w = *state;
    fed_error err = {0};
    const fedserver_http_options options = {.bind = "nowhere.example", .stop = &w->stop};
    assert_fed_status(fedserver_http_serve(&w->server, &options, NULL, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "nowhere.example"));
}

static void test_a_key_of_another_certificate_is_refused(void **state) {
    world *w = *state;
    char path[512];
    fed_error err = {0};
    uint8_t *good = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/server.key", w->server.directory);
    assert_fed_ok_err(fed_file_read(path, FED_PEM_SIZE, &good, &len, &err));
    write_pem(w, "server.key", &w->device.key);
    const fedserver_http_options options = {.bind = "127.0.0.1", .stop = &w->stop};
    assert_fed_status(fedserver_http_serve(&w->server, &options, NULL, &err), FED_EFORMAT);
    assert_non_null(strstr(err.text, "server.key"));
    assert_fed_ok_err(fed_file_replace(path, good, len, 0600, &err));
    free(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_and_its_answer_pass_through_unchanged),
        cmocka_unit_test(test_a_large_body_arrives_whole),
        cmocka_unit_test(test_a_large_answer_arrives_whole),
        cmocka_unit_test(test_a_connection_carries_many_requests),
        cmocka_unit_test(test_pipelined_requests_are_all_answered),
        cmocka_unit_test(test_retry_after_is_passed_on),
        cmocka_unit_test(test_a_page_may_load_nothing_from_elsewhere),
        cmocka_unit_test(test_a_body_that_is_too_large_gets_its_413),
        cmocka_unit_test(test_a_body_of_an_unknown_device_gets_its_403),
        cmocka_unit_test(test_who_asks_before_sending_need_not_send),
        cmocka_unit_test(test_a_chunked_body_is_refused),
        cmocka_unit_test(test_a_broken_upload_harms_nobody),
        cmocka_unit_test(test_slow_bodies_block_nobody),
        cmocka_unit_test(test_a_held_request_is_asked_again_when_its_time_is_over),
        cmocka_unit_test(test_a_hundred_held_requests_cost_nothing_and_wake_together),
        cmocka_unit_test(test_nothing_is_given_to_a_held_peer_that_has_gone),
        cmocka_unit_test(test_stopping_sends_home_who_is_held),
        cmocka_unit_test(test_time_passes_without_requests),
        cmocka_unit_test(test_no_answer_leaves_when_the_commit_fails),
        cmocka_unit_test(test_the_front_wants_no_certificate),
        cmocka_unit_test(test_a_device_is_known_by_its_fingerprint),
        cmocka_unit_test(test_nobody_without_a_certificate_comes_in),
        cmocka_unit_test(test_a_certificate_of_another_ca_is_shut_out),
        cmocka_unit_test(test_an_expired_certificate_is_shut_out),
        cmocka_unit_test(test_a_certificate_that_is_not_valid_yet_is_shut_out),
        cmocka_unit_test(test_a_servers_certificate_is_shut_out),
        cmocka_unit_test(test_a_self_signed_certificate_is_shut_out),
        cmocka_unit_test(test_a_certificate_expires_under_a_living_connection),
        cmocka_unit_test(test_one_byte_and_silence_costs_nothing),
        cmocka_unit_test(test_a_client_hello_and_silence_costs_nothing),
        cmocka_unit_test(test_fifty_half_client_hellos_cost_nothing),
        cmocka_unit_test(test_garbage_harms_nobody),
        cmocka_unit_test(test_a_request_works_while_others_stall),
        cmocka_unit_test(test_a_port_in_use_is_named),
        cmocka_unit_test(test_a_restart_finds_its_ports_free),
        cmocka_unit_test(test_all_addresses_are_those_of_ipv4_too),
        cmocka_unit_test(test_a_bind_address_that_is_none_is_refused),
        cmocka_unit_test(test_a_key_of_another_certificate_is_refused),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = cmocka_run_group_tests(tests, setup, teardown);
    curl_global_cleanup();
    return failed;
}
