/* Sockets of link "tcp": open them and set their options. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/tcp/tcp_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/host_port.h"
#include "fedclient/datacenter/nic/packet/packet_nic.h"

enum { BACKLOG = 1024, QUIET_S = 5, PROBE_S = 1, PROBES = 5 };

void feddc_tcp_close_fd(int *fd) {
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static fed_status resolve(const char *address, int flags, struct addrinfo **all, fed_error *err) {
    fed_host_port at;
    FED_TRY(fed_host_port_read(address, flags == AI_PASSIVE ? 0 : 1, &at, err));
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    const int code = getaddrinfo(at.host, at.port_text, &hints, all);
    return code == 0 ? FED_OK
                     : fed_fail(err, FED_ENET, "the address %s can't be found: %s", address,
                                gai_strerror(code));
}

static bool set(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* An IPv6 socket may carry IPv4, so both options are set on it. */
bool feddc_tcp_mark(int fd, bool marked) {
    const int service = marked ? FEDNIC_MARKED : 0;
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof own;
    return set(fd, IPPROTO_IP, IP_TOS, service) &&
           getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
           (own.ss_family != AF_INET6 || set(fd, IPPROTO_IPV6, IPV6_TCLASS, service));
}

static bool never_block(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Keepalive probes notice that a quiet line has failed. */
static bool set_line(int fd) {
    return never_block(fd) && set(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
           set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && set(fd, IPPROTO_TCP, TCP_KEEPIDLE, QUIET_S) &&
           set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S) &&
           set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES) &&
           set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_LINE_MS);
}

static fed_status set_congestion(int fd, const char *name, fed_error *err) {
    if (name == NULL ||
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0) {
        return FED_OK;
    }
    return fed_fail(err, FED_EINVAL,
                    "this machine can't use congestion control \"%s\" (%s): take one that sysctl "
                    "net.ipv4.tcp_allowed_congestion_control names, or load the kernel module "
                    "tcp_%s",
                    name, strerror(errno), name);
}

fed_status feddc_tcp_prepare(int listener, const char *congestion, fed_error *err) {
    if (!never_block(listener)) {
        return fed_fail(err, FED_EIO, "the listening socket can't be used: %s", strerror(errno));
    }
    return set_congestion(listener, congestion, err);
}

/* Listen on one of a host's addresses. -1: errno has the reason. */
static int listen_on(const struct addrinfo *at) {
    int fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (fd >= 0 && (!set(fd, SOL_SOCKET, SO_REUSEADDR, 1) ||
                    bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)) {
        const int why = errno;
        feddc_tcp_close_fd(&fd);
        errno = why;
    }
    return fd;
}

fed_status feddc_tcp_listen(const char *address, const char *congestion, int *fd, fed_error *err) {
    struct addrinfo *all;
    FED_TRY(resolve(address, AI_PASSIVE, &all, err));
    int made = -1, why = 0;
    for (const struct addrinfo *at = all; at != NULL && made < 0; at = at->ai_next) {
        made = listen_on(at);
        why = errno;
    }
    freeaddrinfo(all);
    if (made < 0) {
        return fed_fail(err, FED_EIO, "can't listen on %s, this rank's address: %s", address,
                        strerror(why));
    }
    fed_status status = feddc_tcp_prepare(made, congestion, err);
    if (status != FED_OK) {
        feddc_tcp_close_fd(&made);
        return status;
    }
    *fd = made;
    return FED_OK;
}

int feddc_tcp_accept(int listener) {
    int fd = accept(listener, NULL, NULL);
    if (fd >= 0 && !set_line(fd)) {
        feddc_tcp_close_fd(&fd);
    }
    return fd;
}

/* Begin to connect to one of a host's addresses. -1: *status or errno has the reason. */
static int call_one(const struct addrinfo *to, const char *congestion, bool marked,
                    fed_status *status, fed_error *err) {
    int fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    *status = set_congestion(fd, congestion, err);
    if (*status != FED_OK || !set_line(fd) || (marked && !feddc_tcp_mark(fd, true)) ||
        (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        const int why = errno;
        feddc_tcp_close_fd(&fd);
        errno = why;
    }
    return fd;
}

fed_status feddc_tcp_call(const char *address, const char *congestion, bool marked, int *fd,
                          fed_error *err) {
    struct addrinfo *all;
    FED_TRY(resolve(address, 0, &all, err));
    fed_status status = FED_OK;
    int made = -1, why = 0;
    for (const struct addrinfo *to = all; to != NULL && made < 0 && status == FED_OK;
         to = to->ai_next) {
        made = call_one(to, congestion, marked, &status, err);
        why = errno;
    }
    freeaddrinfo(all);
    FED_TRY(status);
    if (made < 0) {
        return why == EMFILE ? fed_fail(err, FED_EIO,
                                        "this process can open no more sockets, and it needs two "
                                        "for each rank: raise the limit of open files (ulimit -n)")
                             : fed_fail(err, FED_ENET, "can't connect: %s", strerror(why));
    }
    *fd = made;
    return FED_OK;
}

int feddc_tcp_called(int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : errno;
}

/* n is the result of recv or send. Return the number of bytes: 0 if the call would block, -1 if it
 * failed. */
static ssize_t moved(ssize_t n) {
    if (n >= 0) {
        return n;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

ssize_t feddc_tcp_read(int fd, void *dst, size_t len) {
    const ssize_t n = recv(fd, dst, len, 0);
    return n == 0 ? -1 : moved(n);
}

ssize_t feddc_tcp_write(int fd, const void *src, size_t len) {
    return moved(send(fd, src, len, MSG_NOSIGNAL));
}
