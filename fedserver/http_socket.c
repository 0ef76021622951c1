/* Listening sockets with messages that help, and the questions that libmicrohttpd has no answer to.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "fedserver/http_socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Files that are not connections: the database, its log, the libraries' own. */
enum { FILES_KEPT = 64, BUDGET_LEAST = 16, BUDGET_MOST = 65536 };

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

/* The port that a socket is bound to. */
static uint16_t bound_port(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        return 0;
    }
    if (address.ss_family == AF_INET6) {
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    }
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* A bound and listening socket, or -1 and errno. */
static int open_listening(const struct addrinfo *where) {
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    const int on = 1;
    const int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (where->ai_family == AF_INET6) { /* "::" takes IPv4 peers too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

fed_status http_socket_listen(const char *address, uint16_t *port, int *fd, fed_error *err) {
    char service[8];
    snprintf(service, sizeof service, "%u", *port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *where = NULL;
    if (getaddrinfo(address, service, &hints, &where) != 0) {
        return fed_fail(err, FED_EINVAL,
                        "\"%s\" is not an IP address: write one such as 127.0.0.1 or 0.0.0.0",
                        address);
    }
    const int opened = open_listening(where);
    const int error = errno;
    freeaddrinfo(where);
    if (opened < 0) {
        return bind_failed(address, *port, error, err);
    }
    *port = bound_port(opened);
    *fd = opened;
    return FED_OK;
}

void http_socket_peer(int fd, char address[HTTP_SOCKET_ADDRESS]) {
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0 ||
        getnameinfo((struct sockaddr *)&peer, len, address, HTTP_SOCKET_ADDRESS, NULL, 0,
                    NI_NUMERICHOST) != 0) {
        strcpy(address, "?");
    }
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
