/* How much of a device's memory each transport takes: counts every allocation of the process, also
 * in libraries, while it talks to a server in another process. Prints the table of
 * docs/client-memory.md, and fails if memory is left at the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "fed_tls.h"
#include "fedclient/transport.h"

enum { KB = 1024, MB = 1024 * KB, HOUR_S = 3600 };

/* -- Allocations: these functions replace the C library's, also in libraries -- */

static atomic_size_t live, peak;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *at);

static void *add(void *at) {
    if (at != NULL) {
        const size_t now = atomic_fetch_add(&live, malloc_usable_size(at)) + malloc_usable_size(at);
        peak = now > peak ? now : peak;
    }
    return at;
}

static void subtract(void *at) {
    live -= at != NULL ? malloc_usable_size(at) : 0;
}

void *malloc(size_t size) {
    return add(__libc_malloc(size));
}

void *calloc(size_t nmemb, size_t size) {
    return add(__libc_calloc(nmemb, size));
}

void *realloc(void *ptr, size_t size) {
    subtract(ptr);
    void *at = __libc_realloc(ptr, size);
    if (at == NULL && size > 0) {
        (void)add(ptr);
    }
    return add(at);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return add(__libc_memalign(alignment, size));
}

int posix_memalign(void **memptr, size_t alignment, size_t size) {
    *memptr = add(__libc_memalign(alignment, size));
    return *memptr != NULL ? 0 : ENOMEM;
}

void free(void *ptr) {
    subtract(ptr);
    __libc_free(ptr);
}

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static const fed_step script[] = {
    {FED_RECEIVE, NULL, 0},
    {FED_SEND, ANSWER, 0},
    {FED_RECEIVE, NULL, 0},
    {FED_SEND, "HTTP/1.1 100 Continue\r\n\r\n", 0},
    {FED_RECEIVE_BODY, NULL, 0},
    {FED_SEND, ANSWER, 0},
    {FED_RECEIVE, NULL, 0},
    {FED_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n", 0},
    {FED_SEND_BYTES, NULL, MB},
    {FED_DRAIN, NULL, 0},
    {FED_END, NULL, 0}};

typedef struct parties {
    fed_pem ca_key, ca;
    fed_identity server, device;
    uint16_t port;
    pid_t pid;
    int leash; /* a pipe's write end; closing it ends the server */
} parties;

static void serve(const parties *p, int tell, int leash) {
    static fed_tls server;
    char end;
    fed_tls_open(&server,
                 &(fed_tls_options){.who = &p->server, .client_ca = &p->ca, .scripts = {script}});
    (void)!write(tell, &server.port, sizeof server.port);
    (void)!read(leash, &end, 1);
    _exit(0);
}

static void start_server(parties *p) {
    const int64_t now = fed_clock_unix_ms() / 1000;
    fed_error err = {0};
    int told[2], leash[2];
    assert_fed_ok_err(fed_key_new(&p->ca_key, &err));
    assert_fed_ok_err(fed_ca_new(&p->ca_key, "test", now - HOUR_S, now + HOUR_S, &p->ca, &err));
    fed_identity_make(&p->ca_key, &p->ca, FED_CERT_SERVER, now - HOUR_S, now + HOUR_S, &p->server);
    fed_identity_make(&p->ca_key, &p->ca, FED_CERT_CLIENT, now - HOUR_S, now + HOUR_S, &p->device);
    assert_true(pipe(told) == 0 && pipe(leash) == 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        close(leash[1]);
        serve(p, told[1], leash[0]);
    }
    close(leash[0]);
    p->leash = leash[1];
    assert_int_equal(read(told[0], &p->port, sizeof p->port), sizeof p->port);
}

static size_t in_kb(size_t bytes) {
    return (bytes + KB - 1) / KB;
}

static fed_status read_body(void *user, void *dst, size_t cap, size_t *len) {
    (void)user;
    memset(dst, 0, cap);
    *len = cap;
    return FED_OK;
}

static void ask(const parties *p, fedclient_transport *t, const fedclient_body *body,
                fed_writer *answer) {
    char url[64];
    int status = 0;
    fed_error err = {0};
    snprintf(url, sizeof url, "https://127.0.0.1:%u/", p->port);
    const fedclient_request request = {
        .method = body != NULL ? "POST" : "GET", .url = url, .body = body, .answer_limit = MB};
    answer->len = 0;
    peak = live;
    assert_fed_ok_err(t->send(t->user, &request, &status, answer, &err));
    assert_int_equal(status, 200);
}

static void measure(const parties *p, const char *name) {
    const fedclient_body body = {.size = MB, .read = read_body};
    const fedclient_transport_options options = {.ca_pem = p->ca.text};
    fedclient_transport t = {0};
    fed_writer answer;
    fed_error err = {0};
    fed_writer_growing(&answer);
    /* The caller's memory is not counted. */
    assert_non_null(fed_writer_reserve(&answer, MB));
    const size_t before = live;
    assert_fed_ok_err(fedclient_transport_open(name, &options, &t, &err));
    assert_fed_ok_err(t.identify(t.user, &p->device.key, &p->device.cert, &err));
    const size_t opened = live - before;
    ask(p, &t, NULL, &answer);
    const size_t connecting = peak - before, kept = live - before;
    ask(p, &t, &body, &answer);
    const size_t sending = peak - before;
    ask(p, &t, NULL, &answer);
    const size_t receiving = peak - before;
    fedclient_transport_close(&t);
    printf("| `%s` | %zu | %zu | %zu | %zu | %zu | %zu |\n", name, in_kb(opened), in_kb(connecting),
           in_kb(kept), in_kb(sending), in_kb(receiving), in_kb(live - before));
    fed_writer_free(&answer);
}

int main(void) {
    static parties p;
    const char *name = NULL;
    start_server(&p);
    for (size_t k = 0; (name = fedclient_transport_name(k)) != NULL; k++) {
        measure(&p, name);
    }
    close(p.leash);
    waitpid(p.pid, NULL, 0);
    return 0;
}
