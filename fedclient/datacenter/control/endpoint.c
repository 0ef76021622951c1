/* Open the sockets of the control connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* NOLINT: struct tcp_info */

#include "fedclient/datacenter/control/endpoint.h"

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

#include "fed/clock.h"
#include "fed/host_port.h"

enum { HOST = 96, PORT = 8, RETRY_MS = 100 };

static fed_status find(const char *host, const char *port, struct addrinfo **found,
                       fed_error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int code = getaddrinfo(host, port, &hints, found);
    if (code != 0) {
        return fed_fail(err, FED_ENET, "the address of %s:%s cannot be found: %s", host, port,
                        gai_strerror(code));
    }
    return FED_OK;
}

static fed_status name_bound(int fd, const char *host, char bound[FEDDC_ENDPOINT], fed_error *err) {
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char port[PORT];
    if (getsockname(fd, (struct sockaddr *)&at, &len) != 0 ||
        getnameinfo((struct sockaddr *)&at, len, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0) {
        return fed_fail(err, FED_EIO, "the address of a listening socket cannot be read: %s",
                        strerror(errno));
    }
    const char *form = strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s";
    return snprintf(bound, FEDDC_ENDPOINT, form, host, port) < FEDDC_ENDPOINT
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "the host name %.100s is too long: write its IP address instead", host);
}

static fed_status listen_on(const char *host, const char *port, int *fd, char bound[FEDDC_ENDPOINT],
                            fed_error *err) {
    struct addrinfo *found = NULL;
    FED_TRY(find(host, port, &found, err));
    int one = 1, own = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = own >= 0 && setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                bind(own, found->ai_addr, found->ai_addrlen) == 0 && listen(own, 128) == 0 &&
                fcntl(own, F_SETFL, O_NONBLOCK) == 0;
    int code = errno;
    freeaddrinfo(found);
    fed_status status =
        good ? name_bound(own, host, bound, err)
             : fed_fail(err, FED_ENET, "cannot listen on %s:%s: %s", host, port, strerror(code));
    if (status != FED_OK && own >= 0) {
        close(own);
    } else {
        *fd = own;
    }
    return status;
}

fed_status feddc_endpoint_listen(const char *address, int *fd, char bound[FEDDC_ENDPOINT],
                                 fed_error *err) {
    fed_host_port at;
    FED_TRY(fed_host_port_read(address, 0, &at, err));
    return listen_on(at.host, at.port_text, fd, bound, err);
}

/* Try once to connect, until the time `until`. Return -1 if the attempt failed; errno says why. */
static int attempt(const struct addrinfo *to, int64_t until) {
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    int code = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    while (code == EINPROGRESS || code == EINTR) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int64_t left = until - fed_clock_monotonic_ms();
        int ready = poll(&p, 1, left > 0 ? (int)left : 0);
        socklen_t len = sizeof code;
        if (ready == 0) {
            code = ETIMEDOUT;
        } else if (ready > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0) {
            code = errno;
        }
    }
    if (code != 0) {
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

fed_status feddc_endpoint_connect(const char *address, int64_t ms, int *fd, fed_error *err) {
    fed_host_port at;
    FED_TRY(fed_host_port_read(address, 1, &at, err));
    struct addrinfo *found = NULL;
    FED_TRY(find(at.host, at.port_text, &found, err));
    int64_t until = fed_clock_monotonic_ms() + ms;
    int own = -1, code = 0;
    do {
        for (const struct addrinfo *to = found; to != NULL && own < 0; to = to->ai_next) {
            own = attempt(to, until);
            code = errno;
        }
        if (own < 0) {
            fed_sleep_ms(RETRY_MS);
        }
    } while (own < 0 && fed_clock_monotonic_ms() < until);
    freeaddrinfo(found);
    if (own < 0) {
        return fed_fail(err, FED_ENET, "no failure detector at %s within %.1f s: %s", address,
                        (double)ms / 1000, strerror(code));
    }
    *fd = own;
    return FED_OK;
}

fed_status feddc_endpoint_beside(int fd, const char *host, int *listener,
                                 char bound[FEDDC_ENDPOINT], fed_error *err) {
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char own[HOST];
    if (host != NULL) {
        return listen_on(host, "0", listener, bound, err);
    }
    if (getsockname(fd, (struct sockaddr *)&at, &len) != 0 ||
        getnameinfo((struct sockaddr *)&at, len, own, sizeof own, NULL, 0, NI_NUMERICHOST) != 0) {
        return fed_fail(err, FED_EIO, "the control connection's own address cannot be read: %s",
                        strerror(errno));
    }
    return listen_on(own, "0", listener, bound, err);
}

bool feddc_endpoint_acks(int fd, uint32_t ms) {
#ifdef TCP_INFO
    struct tcp_info info;
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0) {
        return info.tcpi_last_ack_recv < ms;
    }
#endif
    (void)fd;
    (void)ms;
    return true;
}
