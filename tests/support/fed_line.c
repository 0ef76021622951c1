/* A lossy link: it forwards TCP connections, and cuts them off. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed_test.h"

static struct sockaddr_in address(uint32_t host, uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(host)};
}

/* A socket bound to this port of the host; port 0: any. Returns < 0 if the port is taken. */
static int bound(uint32_t host, uint16_t port) {
    const struct sockaddr_in at = address(host, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* A listening socket on 127.0.0.2 whose port is also free on 127.0.0.1. */
static int open_door(uint16_t *port) {
    for (int k = 0; k < 100; k++) {
        int there = bound(INADDR_LOOPBACK, 0);
        assert_true(there >= 0);
        *port = port_of(there);
        int here = bound(INADDR_LOOPBACK + 1, *port);
        close(there);
        if (here >= 0) {
            assert_int_equal(listen(here, FED_LINE_CONNECTIONS), 0);
            return here;
        }
    }
    fail_msg("no free ports");
    return -1;
}

void fed_line_open(fed_line *line, uint64_t break_bytes) {
    memset(line, 0, sizeof *line);
    line->break_bytes = break_bytes;
    for (size_t k = 0; k < FED_LINE_DOORS; k++) {
        line->doors[k] = open_door(&line->ports[k]);
    }
    for (size_t k = 0; k < FED_LINE_CONNECTIONS; k++) {
        line->connections[k].device = -1;
    }
}

/* Close a connection, even if other processes have inherited its sockets. */
static void hang_up(fed_line_connection *c) {
    (void)shutdown(c->device, SHUT_RDWR);
    (void)shutdown(c->coordinator, SHUT_RDWR);
    close(c->device);
    close(c->coordinator);
    c->device = -1;
}

void fed_line_close(fed_line *line) {
    for (size_t k = 0; k < FED_LINE_CONNECTIONS; k++) {
        if (line->connections[k].device >= 0) {
            hang_up(&line->connections[k]);
        }
    }
    for (size_t k = 0; k < FED_LINE_DOORS; k++) {
        close(line->doors[k]);
    }
}

static void prepare(int fd) {
    assert_true(fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
}

/* Accept a device's connection, and connect to the coordinator. Close the connection if no
 * coordinator answers. */
static void let_in(fed_line *line, size_t door) {
    const struct sockaddr_in to = address(INADDR_LOOPBACK, line->ports[door]);
    int device = accept(line->doors[door], NULL, NULL);
    if (device < 0) {
        return;
    }
    fed_line_connection *c = NULL;
    for (size_t k = 0; k < FED_LINE_CONNECTIONS && c == NULL; k++) {
        c = line->connections[k].device < 0 ? &line->connections[k] : NULL;
    }
    int coordinator = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(coordinator >= 0);
    if (c == NULL || connect(coordinator, (const struct sockaddr *)&to, sizeof to) != 0) {
        close(device);
        close(coordinator);
        return;
    }
    *c = (fed_line_connection){.device = device, .coordinator = coordinator};
    prepare(device);
    prepare(coordinator);
    line->dialled++;
}

/* Forward as many bytes as possible in one direction. False: the connection is over. */
static bool forward(fed_line *line, fed_line_connection *c, int from, int to, fed_line_flow *flow,
                    uint64_t *count) {
    if (flow->len == 0) {
        ssize_t got = recv(from, flow->bytes, sizeof flow->bytes, 0);
        if (got <= 0) {
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        }
        flow->len = (size_t)got;
        flow->sent = 0;
    }
    size_t left = flow->len - flow->sent;
    uint64_t may = line->break_bytes - c->carried;
    ssize_t put = send(to, flow->bytes + flow->sent, left < may ? left : (size_t)may, MSG_NOSIGNAL);
    if (put < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    flow->sent += (size_t)put;
    flow->len = flow->sent == flow->len ? 0 : flow->len;
    *count += (uint64_t)put;
    c->carried += (uint64_t)put;
    line->breaks += c->carried == line->break_bytes;
    return c->carried < line->break_bytes;
}

/* Fill `all` with the events to wait for: a side can send more bytes, or can take bytes of the
 * other side. */
static size_t watch(fed_line *line, struct pollfd *all, fed_line_connection **whose) {
    size_t n = 0;
    for (size_t k = 0; k < FED_LINE_DOORS; k++) {
        all[n++] = (struct pollfd){.fd = line->doors[k], .events = POLLIN};
    }
    for (size_t k = 0; k < FED_LINE_CONNECTIONS; k++) {
        fed_line_connection *c = &line->connections[k];
        if (c->device < 0) {
            continue;
        }
        whose[n] = c;
        all[n++] = (struct pollfd){
            .fd = c->device,
            .events = (short)((c->up.len == 0 ? POLLIN : 0) | (c->down.len > 0 ? POLLOUT : 0))};
        whose[n] = c;
        all[n++] = (struct pollfd){
            .fd = c->coordinator,
            .events = (short)((c->down.len == 0 ? POLLIN : 0) | (c->up.len > 0 ? POLLOUT : 0))};
    }
    return n;
}

void fed_line_turn(fed_line *line, int wait_ms) {
    enum { WATCHED = FED_LINE_DOORS + 2 * FED_LINE_CONNECTIONS };
    struct pollfd all[WATCHED];
    fed_line_connection *whose[WATCHED] = {NULL};
    size_t n = watch(line, all, whose);
    if (poll(all, n, wait_ms) <= 0) {
        return;
    }
    for (size_t k = FED_LINE_DOORS; k < n; k++) {
        fed_line_connection *c = whose[k];
        if (all[k].revents == 0 || c->device < 0) {
            continue;
        }
        if (!forward(line, c, c->device, c->coordinator, &c->up, &line->up_bytes) ||
            !forward(line, c, c->coordinator, c->device, &c->down, &line->down_bytes)) {
            hang_up(c);
        }
    }
    for (size_t k = 0; k < FED_LINE_DOORS; k++) {
        if (all[k].revents != 0) {
            let_in(line, k);
        }
    }
}
