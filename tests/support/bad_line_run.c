/* A bad line between two network interfaces, which it reads and writes through packet sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: SO_RCVBUFFORCE */
#include "bad_line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fed/clock.h"

enum { ROOM = 32 << 20, TURN_FRAMES = 64, POLL_MS = 50 };

static bool set(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

static bool prepare(int fd, int index) {
    const struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    const struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index};
    return set(fd, SOL_PACKET, PACKET_VNET_HDR, 1) &&
           set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) &&
           (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, ROOM) || set(fd, SOL_SOCKET, SO_RCVBUF, ROOM)) &&
           setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) == 0 &&
           bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
}

int bad_line_socket(const char *interface, fed_error *err) {
    unsigned index = if_nametoindex(interface);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (index == 0 || fd < 0 || !prepare(fd, (int)index)) {
        (void)fed_fail(err, FED_EIO, "interface %s: can't open a packet socket (%s); run as root",
                       interface, index == 0 ? "no such interface" : strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

typedef struct line_ends {
    bad_line *line;
    const int *sockets;
} line_ends;

static void emit(void *user, int from, const bad_frame *frame) {
    line_ends *ends = user;
    int fd = ends->sockets[1 - from];
    struct virtio_net_hdr offload = frame->offload;
    struct iovec io[2] = {{.iov_base = &offload, .iov_len = sizeof offload},
                          {.iov_base = frame->data, .iov_len = frame->len}};
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    ssize_t n = writev(fd, io, 2);
    for (int k = 0; n < 0 && k < 3 && (errno == EAGAIN || errno == ENOBUFS); k++) {
        (void)poll(&room, 1, POLL_MS);
        n = writev(fd, io, 2);
    }
    if (n < 0) {
        ends->line->way[from].counts.untaken++;
    }
}

bool bad_line_read(int fd, bad_frame *frame) {
    struct iovec io[2] = {{.iov_base = &frame->offload, .iov_len = sizeof frame->offload},
                          {.iov_base = frame->data, .iov_len = BAD_FRAME}};
    ssize_t n = readv(fd, io, 2);
    if (n < (ssize_t)sizeof frame->offload) {
        return false;
    }
    frame->len = (size_t)n - sizeof frame->offload;
    return true;
}

static void take_some(bad_line *line, int fd, int from, bad_frame *frame) {
    for (int k = 0; k < TURN_FRAMES && bad_line_read(fd, frame); k++) {
        bad_line_take(line, from, frame, fed_clock_monotonic_ms());
    }
}

void bad_line_run(bad_line *line, const int sockets[BAD_SIDES], const atomic_bool *stop) {
    line_ends ends = {.line = line, .sockets = sockets};
    bad_frame frame = {.data = malloc(BAD_FRAME)};
    struct pollfd in[BAD_SIDES] = {{.fd = sockets[0], .events = POLLIN},
                                   {.fd = sockets[1], .events = POLLIN}};
    line->emit = emit;
    line->user = &ends;
    while (frame.data != NULL && !atomic_load(stop)) {
        int wait = bad_line_poll(line, fed_clock_monotonic_ms());
        if (poll(in, BAD_SIDES, wait < POLL_MS ? wait : POLL_MS) <= 0) {
            continue;
        }
        for (int k = 0; k < BAD_SIDES; k++) {
            if ((in[k].revents & (POLLIN | POLLERR)) != 0) {
                take_some(line, sockets[k], k, &frame);
            }
        }
    }
    free(frame.data);
}
