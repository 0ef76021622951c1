/* Opens listening sockets, and detects peers that have left. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for POLLRDHUP */
#include "fedserver/http/http_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fedserver/http.h"

/* FILES_KEPT: open files that are no connections, such as the database and libraries. */
enum { FILES_KEPT = 128, BUDGET_LEAST = 16, BUDGET_MOST = 65536 };
enum { PORT_TRIES = 20, PORT_PAUSE_NS = 50 * 1000 * 1000 };

static fed_status bind_failed(const char *address, uint16_t port, int error, fed_error *err) {
    if (error == EADDRINUSE) {
        return fed_fail(err, FED_EBUSY,
                        "port %u on %s is in use: end the program that listens there (perhaps "
                        "another fedserver), or choose another port",
                        port, address);
    }
    if (error == EACCES) {
        return fed_fail(err, FED_EAUTH,
                        "no permission to listen on port %u: choose one of 1024 or more", port);
    }
    if (error == EADDRNOTAVAIL) {
        return fed_fail(err, FED_EINVAL,
                        "%s is not an address of this machine: bind to one that is, or to 0.0.0.0",
                        address);
    }
    return fed_fail(err, FED_EIO, "can't listen on %s port %u: %s", address, port, strerror(error));
}

typedef union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} endpoint;

static bool parse(const char *address, uint16_t port, endpoint *to) {
    *to = (endpoint){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    if (inet_pton(AF_INET6, address, &to->v6.sin6_addr) == 1) {
        return true;
    }
    *to = (endpoint){.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    return inet_pton(AF_INET, address, &to->v4.sin_addr) == 1;
}

static int open_listening(const endpoint *at) {
    int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    const bool v6 = at->any.sa_family == AF_INET6;
    const int on = 1;
    const int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (v6) { /* a socket bound to "::" accepts IPv4 peers, too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, &at->any, v6 ? sizeof at->v6 : sizeof at->v4) != 0 || listen(fd, SOMAXCONN) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* SO_REUSEADDR allows listening while connections of a killed process linger on the port. If the
 * port is in use, retry, because the front's process may end later than its parent. */
fed_status fedserver_http_listen(const char *address, uint16_t *port, int *fd, fed_error *err) {
    endpoint at;
    if (!parse(address, *port, &at)) {
        return fed_fail(err, FED_EINVAL,
                        "\"%s\" is not an IP address: write one such as 127.0.0.1 or 0.0.0.0",
                        address);
    }
    int opened = open_listening(&at);
    for (int k = 0; opened < 0 && errno == EADDRINUSE && k < PORT_TRIES; k++) {
        const struct timespec pause = {.tv_nsec = PORT_PAUSE_NS};
        (void)nanosleep(&pause, NULL);
        opened = open_listening(&at);
    }
    if (opened < 0) {
        return bind_failed(address, *port, errno, err);
    }
    socklen_t len = sizeof at;
    const bool bound = getsockname(opened, &at.any, &len) == 0;
    *port = bound ? ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port) : 0;
    *fd = opened;
    return FED_OK;
}

bool http_socket_gone(int fd) {
    struct pollfd peer = {.fd = fd, .events = POLLRDHUP};
    return poll(&peer, 1, 0) > 0;
}

uint32_t http_socket_budget(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY ||
        files.rlim_cur > BUDGET_MOST + FILES_KEPT) {
        return BUDGET_MOST;
    }
    if (files.rlim_cur < BUDGET_LEAST + FILES_KEPT) {
        return BUDGET_LEAST;
    }
    return (uint32_t)files.rlim_cur - FILES_KEPT;
}
