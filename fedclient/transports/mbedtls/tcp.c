/* A TCP connection: POSIX sockets that never block, and poll. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/transports/mbedtls/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>

#include "fed/clock.h"

enum {
    LOOK_MS = 500,   /* most time between two calls of `stopped` in a wait */
    SLEEP_MS = 60000 /* longest sleep of a wait without `stopped` */
};

static fed_status fail(fedclient_tcp *tcp, fed_status status, const char *what, const char *why) {
    snprintf(tcp->problem, sizeof tcp->problem, "%s%s%s", what, why[0] != '\0' ? ": " : "", why);
    return status;
}

/** Used in place of strerror, which is not thread-safe. */
static const char *words_of(int error) {
    switch (error) {
    case ECONNREFUSED:
        return "no program listens at this address and port";
    case ECONNRESET:
    case EPIPE:
        return "the other side reset the connection";
    case ENETUNREACH:
    case EHOSTUNREACH:
        return "there is no route to the host";
    case ETIMEDOUT:
        return "the host does not answer";
    default:
        return "the system's network failed";
    }
}

fed_status fedclient_tcp_stopped(fedclient_tcp *tcp) {
    const fedclient_transport_options *options = tcp->options;
    if (options->stopped != NULL && options->stopped(options->user)) {
        return fail(tcp, FED_ECANCELED, "the program asked to stop this request", "");
    }
    return FED_OK;
}

fed_status fedclient_tcp_wait(fedclient_tcp *tcp, int ways, int64_t until_ms) {
    struct pollfd door = {.fd = tcp->fd};
    const int64_t most_ms = tcp->options->stopped != NULL ? LOOK_MS : SLEEP_MS;
    door.events = (short)(((ways & FEDCLIENT_TCP_IN) != 0 ? POLLIN : 0) |
                          ((ways & FEDCLIENT_TCP_OUT) != 0 ? POLLOUT : 0));
    for (;;) {
        FED_TRY(fedclient_tcp_stopped(tcp));
        const int64_t now_ms = fed_clock_monotonic_ms();
        const int64_t given_up_ms = tcp->moved_ms + tcp->patience_ms;
        int64_t nap_ms = (given_up_ms < until_ms ? given_up_ms : until_ms) - now_ms;
        nap_ms = nap_ms < 0 ? 0 : nap_ms < most_ms ? nap_ms : most_ms;
        if (poll(&door, 1, (int)nap_ms) > 0 || now_ms >= until_ms) {
            return FED_OK;
        }
        if (now_ms >= given_up_ms) {
            return fail(tcp, FED_ETIMEOUT, "no byte was received or sent for too long", "");
        }
    }
}

/** Returns a non-blocking socket that connects; -1: errno has the reason. */
static int start_connecting(const struct addrinfo *to) {
    const int on = 1;
    int fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        const int why = errno;
        (void)close(fd);
        errno = why;
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static fed_status connect_to(fedclient_tcp *tcp, const struct addrinfo *to) {
    int error = 0;
    socklen_t len = sizeof error;
    tcp->fd = start_connecting(to);
    if (tcp->fd < 0) {
        return fail(tcp, FED_ENET, "can't connect", words_of(errno));
    }
    tcp->moved_ms = fed_clock_monotonic_ms();
    fed_status status = fedclient_tcp_wait(tcp, FEDCLIENT_TCP_OUT, INT64_MAX);
    if (status == FED_OK &&
        (getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0)) {
        status = fail(tcp, FED_ENET, "can't connect", words_of(error));
    }
    if (status != FED_OK) {
        fedclient_tcp_close(tcp);
    }
    return status;
}

fed_status fedclient_tcp_connect(fedclient_tcp *tcp, const char *host, const char *port) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    const int code = getaddrinfo(host, port, &hints, &all);
    if (code != 0) {
        return fail(tcp, FED_ENET, "the host has no address", gai_strerror(code));
    }
    fed_status status = FED_ENET;
    for (const struct addrinfo *to = all; to != NULL && status != FED_OK; to = to->ai_next) {
        status = connect_to(tcp, to);
        if (status == FED_ECANCELED) {
            break;
        }
    }
    freeaddrinfo(all);
    tcp->moved_ms = fed_clock_monotonic_ms();
    return status;
}

size_t fedclient_tcp_address(const char *host, uint8_t address[16]) {
    return inet_pton(AF_INET, host, address) == 1    ? 4
           : inet_pton(AF_INET6, host, address) == 1 ? 16
                                                     : 0;
}

void fedclient_tcp_close(fedclient_tcp *tcp) {
    if (tcp->fd >= 0) {
        (void)close(tcp->fd);
        tcp->fd = -1;
    }
}

static bool would_block(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int fedclient_tcp_send(void *user, const unsigned char *src, size_t len) {
    fedclient_tcp *tcp = user;
    const ssize_t n = send(tcp->fd, src, len, MSG_NOSIGNAL);
    if (n < 0) {
        if (would_block()) {
            return MBEDTLS_ERR_SSL_WANT_WRITE;
        }
        (void)fail(tcp, FED_ENET, "the connection broke", words_of(errno));
        return MBEDTLS_ERR_NET_SEND_FAILED;
    }
    tcp->moved_ms = fed_clock_monotonic_ms();
    return (int)n;
}

int fedclient_tcp_receive(void *user, unsigned char *dst, size_t cap) {
    fedclient_tcp *tcp = user;
    const ssize_t n = recv(tcp->fd, dst, cap, 0);
    if (n < 0) {
        if (would_block()) {
            return MBEDTLS_ERR_SSL_WANT_READ;
        }
        (void)fail(tcp, FED_ENET, "the connection broke", words_of(errno));
        return MBEDTLS_ERR_NET_RECV_FAILED;
    }
    tcp->moved_ms = fed_clock_monotonic_ms();
    return (int)n;
}
