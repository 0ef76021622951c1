/* Moves bytes below TLS: reads ahead, holds writes back, and reads a proxy's header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fedserver/http/http_proxy.h"

/* AHEAD: bytes to read beyond what TLS asked for, enough for a usual request's record. HELD_MOST:
 * the largest push that is held, enough for an answer's head. PARTS_MOST: parts in one call. */
enum { AHEAD = 2048, HELD_MOST = 4096, PARTS_MOST = 16 };

static void count(const http_wire *wire, ssize_t result) {
    if (result >= 0 || (errno != EAGAIN && errno != EINTR)) {
        ++*wire->progress;
    }
}

static bool keep(http_wire_bytes *bytes, size_t len) {
    *bytes = (http_wire_bytes){.data = malloc(len), .len = len};
    if (bytes->data == NULL) {
        bytes->len = 0;
        errno = ENOMEM;
    }
    return bytes->data != NULL;
}

static void use(http_wire_bytes *bytes, size_t len) {
    bytes->at += len;
    bytes->len -= len;
    if (bytes->len == 0) {
        free(bytes->data);
        *bytes = (http_wire_bytes){.data = NULL};
    }
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Read the proxy's header. False: it is not read; errno EAGAIN: it is not complete yet. */
static bool take_proxy_header(http_wire *wire) {
    uint8_t bytes[HTTP_PROXY_MOST];
    size_t used = 0;
    const ssize_t n = recv(wire->fd, bytes, sizeof bytes, MSG_PEEK);
    if (n < 0) {
        count(wire, n);
        return false;
    }
    const http_proxy_found found = http_proxy_read(bytes, (size_t)n, &used, &wire->address);
    if (n > 0 && found == HTTP_PROXY_MORE && (size_t)n < sizeof bytes) {
        errno = EAGAIN;
        return false;
    }
    count(wire, 0);
    wire->proxied = false;
    errno = ECONNRESET;
    return n > 0 && found == HTTP_PROXY_DONE && recv(wire->fd, bytes, used, 0) == (ssize_t)used;
}

/* libmicrohttpd with epoll reads until EAGAIN, so bytes in memory need no event of the socket. */
ssize_t http_wire_pull(http_wire *wire, void *dst, size_t size) {
    if (wire->proxied && !take_proxy_header(wire)) {
        return -1;
    }
    if (wire->ahead.len > 0) {
        const size_t len = least(size, wire->ahead.len);
        memcpy(dst, wire->ahead.data + wire->ahead.at, len);
        use(&wire->ahead, len);
        count(wire, (ssize_t)len);
        return (ssize_t)len;
    }
    uint8_t ahead[AHEAD];
    const struct iovec parts[] = {{.iov_base = dst, .iov_len = size},
                                  {.iov_base = ahead, .iov_len = sizeof ahead}};
    const ssize_t n = readv(wire->fd, parts, 2);
    count(wire, n);
    if (n == 0) { /* within a record GnuTLS would take a 0 for EAGAIN */
        errno = ECONNRESET;
        return -1;
    }
    if (n < 0 || (size_t)n <= size) {
        return n;
    }
    if (!keep(&wire->ahead, (size_t)n - size)) {
        return -1;
    }
    memcpy(wire->ahead.data, ahead, wire->ahead.len);
    return (ssize_t)size;
}

void http_wire_hold(http_wire *wire) {
    wire->holds = true;
}

static bool hold(http_wire *wire, const struct iovec *parts, int part_count) {
    size_t size = 0;
    for (int k = 0; k < part_count; k++) {
        size += parts[k].iov_len;
    }
    if (wire->pending.len > 0 || size == 0 || size > HELD_MOST || !keep(&wire->pending, size)) {
        return false;
    }
    for (size_t k = 0, at = 0; at < size; at += parts[k++].iov_len) {
        memcpy(wire->pending.data + at, parts[k].iov_base, parts[k].iov_len);
    }
    return true;
}

ssize_t http_wire_push(http_wire *wire, const struct iovec *parts, int part_count) {
    const bool holds = wire->holds;
    wire->holds = false;
    if (holds && hold(wire, parts, part_count)) {
        return (ssize_t)wire->pending.len;
    }
    struct iovec all[1 + PARTS_MOST];
    const size_t pending = wire->pending.len > 0;
    if (pending) {
        all[0].iov_base = wire->pending.data + wire->pending.at;
        all[0].iov_len = wire->pending.len;
    }
    const size_t pushed = least((size_t)part_count, PARTS_MOST);
    memcpy(all + pending, parts, pushed * sizeof *parts);
    const struct msghdr message = {.msg_iov = all, .msg_iovlen = pending + pushed};
    const ssize_t n = sendmsg(wire->fd, &message, MSG_NOSIGNAL);
    count(wire, n);
    if (n < 0 || wire->pending.len == 0) {
        return n;
    }
    const size_t of_held = least((size_t)n, wire->pending.len);
    use(&wire->pending, of_held);
    if ((size_t)n == of_held) {
        errno = EAGAIN;
        return -1;
    }
    return n - (ssize_t)of_held;
}

void http_wire_free(http_wire *wire) {
    use(&wire->ahead, wire->ahead.len);
    use(&wire->pending, wire->pending.len);
}
