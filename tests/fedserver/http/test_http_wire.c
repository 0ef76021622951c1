/* The bytes below TLS: received in one read or many, held back, or sent through a full pipe. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fedserver/http/http_wire.h"

typedef struct ends {
    http_wire wire;
    int peer;
    uint64_t progress;
} ends;

static int open_ends(void **state) {
    int fds[2];
    ends *e = calloc(1, sizeof *e);
    assert_non_null(e);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    e->wire = (http_wire){.fd = fds[0], .progress = &e->progress};
    e->peer = fds[1];
    *state = e;
    return 0;
}

static int close_ends(void **state) {
    ends *e = *state;
    http_wire_free(&e->wire);
    close(e->wire.fd);
    if (e->peer >= 0) {
        close(e->peer);
    }
    free(e);
    return 0;
}

static void peer_says(const ends *e, const void *bytes, size_t len) {
    assert_int_equal(send(e->peer, bytes, len, 0), len);
}

static void assert_pulls(ends *e, size_t size, const char *wanted) {
    char got[8192];
    const ssize_t n = http_wire_pull(&e->wire, got, size);
    assert_int_equal(n, strlen(wanted));
    assert_memory_equal(got, wanted, strlen(wanted));
}

static void assert_pull_fails(ends *e, int error) {
    char got[16];
    assert_int_equal(http_wire_pull(&e->wire, got, sizeof got), -1);
    assert_int_equal(errno, error);
}

static ssize_t push(ends *e, const void *bytes, size_t len) {
    const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    return http_wire_push(&e->wire, &part, 1);
}

static void assert_peer_hears(const ends *e, const char *wanted) {
    char got[256];
    const ssize_t n = recv(e->peer, got, sizeof got, 0);
    assert_int_equal(n, strlen(wanted));
    assert_memory_equal(got, wanted, strlen(wanted));
}

static void assert_peer_hears_nothing(const ends *e) {
    char got;
    assert_int_equal(recv(e->peer, &got, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

static void one_read_brings_what_is_asked_for_later(void **state) {
    ends *e = *state;
    char byte;
    peer_says(e, "heads, bodies", 13);
    assert_pulls(e, 5, "heads");
    assert_int_equal(recv(e->wire.fd, &byte, 1, MSG_PEEK), -1);
    assert_pulls(e, 2, ", ");
    assert_pulls(e, 100, "bodies");
    assert_null(e->wire.ahead.data);
    assert_true(e->progress >= 3);
    assert_pull_fails(e, EAGAIN);
}

static void empty_is_not_the_end(void **state) {
    ends *e = *state;
    assert_pull_fails(e, EAGAIN);
    assert_int_equal(e->progress, 0);
    peer_says(e, "abc", 3);
    close(e->peer);
    e->peer = -1;
    assert_pulls(e, 1, "a");
    assert_pulls(e, 5, "bc");
    assert_pull_fails(e, ECONNRESET);
}

static void long_records_arrive_whole(void **state) {
    enum { SIZE = 60000, RECORD = 16401 };
    ends *e = *state;
    static uint8_t sent[SIZE], got[SIZE];
    for (size_t k = 0; k < SIZE; k++) {
        sent[k] = (uint8_t)(k * 31 + (k >> 8));
    }
    peer_says(e, sent, SIZE);
    for (size_t at = 0, pulls = 0; at < SIZE; pulls++) {
        const size_t asked = pulls % 2 == 0 ? 5 : RECORD;
        const ssize_t n = http_wire_pull(&e->wire, got + at, asked < SIZE - at ? asked : SIZE - at);
        assert_true(n > 0);
        at += (size_t)n;
    }
    assert_memory_equal(got, sent, SIZE);
    assert_pull_fails(e, EAGAIN);
}

static void a_proxy_s_header_comes_first(void **state) {
    ends *e = *state;
    char text[HTTP_ADDRESS_TEXT];
    e->wire.proxied = true;
    peer_says(e, "PROXY TCP4 192.0.2.1 192.0.2.2 5", 32);
    assert_pull_fails(e, EAGAIN);
    peer_says(e, "0000 8443\r\nhello", 16);
    assert_pulls(e, 3, "hel");
    assert_pulls(e, 3, "lo");
    http_address_write(&e->wire.address, text);
    assert_string_equal(text, "192.0.2.1");
}

static void what_is_held_travels_with_the_next(void **state) {
    ends *e = *state;
    http_wire_hold(&e->wire);
    assert_int_equal(push(e, "head ", 5), 5);
    assert_peer_hears_nothing(e);
    assert_int_equal(push(e, "body", 4), 4);
    assert_peer_hears(e, "head body");
    assert_null(e->wire.pending.data);
    assert_int_equal(push(e, "next", 4), 4); /* http_wire_hold held only the first write back */
    assert_peer_hears(e, "next");
}

static void parts_are_held_in_their_order(void **state) {
    ends *e = *state;
    char a[] = "a", b[] = "bc", d[] = "d";
    const struct iovec parts[] = {{a, 1}, {b, 0}, {b, 2}, {d, 1}};
    http_wire_hold(&e->wire);
    assert_int_equal(http_wire_push(&e->wire, parts, 4), 4);
    assert_int_equal(http_wire_push(&e->wire, parts, 3), 3);
    assert_peer_hears(e, "abcdabc");
}

static void a_long_push_is_not_held(void **state) {
    enum { SIZE = 20000 };
    ends *e = *state;
    static char bytes[SIZE];
    http_wire_hold(&e->wire);
    assert_int_equal(push(e, bytes, SIZE), SIZE);
    assert_int_equal(recv(e->peer, bytes, SIZE, 0), SIZE);
    assert_null(e->wire.pending.data);
}

static size_t fill(ends *e) {
    static const char dots[1000] = {'.'};
    size_t filled = 0;
    for (ssize_t n = 0; n >= 0; filled += n > 0 ? (size_t)n : 0) {
        n = push(e, dots, sizeof dots);
    }
    assert_int_equal(errno, EAGAIN);
    return filled;
}

static void drain(const ends *e, size_t len) {
    char bytes[1000];
    for (ssize_t n = 0; len > 0; len -= (size_t)n) {
        n = recv(e->peer, bytes, len < sizeof bytes ? len : sizeof bytes, 0);
        assert_true(n > 0);
    }
}

static void a_full_pipe_loses_nothing_that_is_held(void **state) {
    ends *e = *state;
    const size_t filled = fill(e);
    http_wire_hold(&e->wire);
    assert_int_equal(push(e, "head ", 5), 5);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(push(e, "body", 4), -1);
        assert_int_equal(errno, EAGAIN);
    }
    drain(e, filled);
    assert_int_equal(push(e, "body", 4), 4);
    assert_peer_hears(e, "head body");
}

static void a_write_may_end_anywhere(void **state) {
    enum { HEAD = 3000, BODY = 400000 };
    ends *e = *state;
    static uint8_t sent[HEAD + BODY], got[HEAD + BODY];
    size_t heard = 0;
    for (size_t k = 0; k < sizeof sent; k++) {
        sent[k] = (uint8_t)(k * 31 + (k >> 8));
    }
    http_wire_hold(&e->wire);
    assert_int_equal(push(e, sent, HEAD), HEAD);
    for (size_t at = HEAD; heard < sizeof got;) {
        const ssize_t pushed = at < sizeof sent ? push(e, sent + at, sizeof sent - at) : 0;
        at += pushed > 0 ? (size_t)pushed : 0;
        const ssize_t n = recv(e->peer, got + heard, 777, 0);
        assert_true(n > 0);
        heard += (size_t)n;
    }
    assert_memory_equal(got, sent, sizeof sent);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, open_ends, close_ends)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(one_read_brings_what_is_asked_for_later),
        WITH(empty_is_not_the_end),
        WITH(long_records_arrive_whole),
        WITH(a_proxy_s_header_comes_first),
        WITH(what_is_held_travels_with_the_next),
        WITH(parts_are_held_in_their_order),
        WITH(a_long_push_is_not_held),
        WITH(a_full_pipe_loses_nothing_that_is_held),
        WITH(a_write_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
