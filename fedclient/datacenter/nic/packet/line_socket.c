/* The line's packet socket with virtio headers: receive and send frames in batches. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: recvmmsg, struct ifreq */
#include "fedclient/datacenter/nic/packet/line_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fedclient/datacenter/nic/packet/vnet_header.h"

enum {
    IN = 32,
    OUT = 256,
    MADE = 96,  /* usually the NIC makes at most this many packets of one frame */
    TRIES = 64, /* most tries to send a frame while the line has no buffer for it */
    AGAIN_MS = 1,
    ARENA = 512 * 1024,
    TAG_ROOM = 4, /* room before a received frame, where its VLAN tag is put back */
    RECEIVE = 32 << 20,
    /* bytes of the socket's send buffer: few, because the host's TCP takes frames that wait in it
     * as sent */
    SEND = 256 * 1024
};

struct fednic_line {
    int fd;
    uint32_t index, mtu;
    uint8_t address[6];
    char name[IFNAMSIZ];
    fednic_line_counts counts;
    unsigned first, queued; /* messages in the send queue: first .. first + queued - 1 */
    size_t used;
    unsigned tries; /* failed tries of the first message */
    struct mmsghdr out[OUT];
    struct iovec out_parts[OUT][2];
    struct virtio_net_hdr out_header[OUT];
    struct mmsghdr in[IN];
    struct iovec in_part[IN];
    _Alignas(struct cmsghdr) uint8_t in_control[IN][CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    uint8_t slots[IN][FEDNIC_SLOT];
    uint8_t arena[ARENA];
};

static fed_status failed(const char *name, const char *what, fed_error *err) {
    if (errno == EPERM) {
        return fed_fail(err, FED_EAUTH,
                        "only root, or a program with CAP_NET_RAW and CAP_NET_ADMIN, can take over "
                        "the interface %s",
                        name);
    }
    return fed_fail(err, FED_EIO, "%s: %s: %s", name, what, strerror(errno));
}

static fed_status look(fednic_line *line, fed_error *err) {
    struct ifreq r;
    memset(&r, 0, sizeof r);
    memcpy(r.ifr_name, line->name, sizeof r.ifr_name);
    if (ioctl(line->fd, SIOCGIFHWADDR, &r) != 0) {
        return failed(line->name, "its hardware address can't be read", err);
    }
    if (r.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
        return fed_fail(err, FED_EINVAL, "%s is no Ethernet interface: give one with --wire",
                        line->name);
    }
    memcpy(line->address, r.ifr_hwaddr.sa_data, sizeof line->address);
    if (ioctl(line->fd, SIOCGIFMTU, &r) != 0) {
        return failed(line->name, "its MTU can't be read", err);
    }
    line->mtu = (uint32_t)r.ifr_mtu & ~3U;
    if (ioctl(line->fd, SIOCGIFFLAGS, &r) != 0) {
        return failed(line->name, "its flags can't be read", err);
    }
    if ((r.ifr_flags & IFF_UP) == 0) {
        r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
        if (ioctl(line->fd, SIOCSIFFLAGS, &r) != 0) {
            return failed(line->name, "can't bring it up", err);
        }
    }
    return FED_OK;
}

/* A filter for the frames that kernel_path.c leaves to the NIC. Offsets are those of frames without
 * a VLAN tag: the kernel has removed it. */
static bool take_nics_only(int fd) {
    enum { SYN = 2 };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 15),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FEDNIC_TOS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FEDNIC_MARKED, 16, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FEDNIC_COMPRESSED, 15, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 12),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 47),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 11, 10),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 9),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FEDNIC_TOS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FEDNIC_MARKED, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FEDNIC_COMPRESSED, 5, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 2),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 67),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

static bool set(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

static fed_status configure(fednic_line *line, bool nics_only, fed_error *err) {
    const struct packet_mreq all = {.mr_ifindex = (int)line->index, .mr_type = PACKET_MR_PROMISC};
    if (!set(line->fd, SOL_PACKET, PACKET_VNET_HDR, 1) ||
        !set(line->fd, SOL_PACKET, PACKET_AUXDATA, 1) ||
        !set(line->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
        !set(line->fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE) ||
        !set(line->fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND) ||
        (nics_only && !take_nics_only(line->fd)) ||
        setsockopt(line->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0) {
        return failed(line->name, "can't set an option of the packet socket", err);
    }
    const struct sockaddr_ll to = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)line->index};
    if (bind(line->fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        return failed(line->name, "can't bind the packet socket", err);
    }
    return FED_OK;
}

static fed_status open_socket(fednic_line *line, const char *name, bool nics_only, fed_error *err) {
    line->index = if_nametoindex(name);
    if (line->index == 0) {
        return fed_fail(err, FED_ENOTFOUND, "there is no interface %.60s: `ip link` lists them",
                        name);
    }
    memcpy(line->name, name, strnlen(name, sizeof line->name - 1));
    line->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (line->fd < 0) {
        return failed(line->name, "can't make a packet socket", err);
    }
    FED_TRY(look(line, err));
    return configure(line, nics_only, err);
}

fed_status fednic_line_open(const char *name, bool nics_only, fednic_line **line, fed_error *err) {
    fednic_line *l = calloc(1, sizeof *l);
    FED_REQUIRE(l != NULL, FED_ENOMEM);
    l->fd = -1;
    const fed_status status = open_socket(l, name, nics_only, err);
    if (status != FED_OK) {
        fednic_line_close(l);
        return status;
    }
    *line = l;
    return FED_OK;
}

void fednic_line_close(fednic_line *line) {
    if (line != NULL && line->fd >= 0) {
        close(line->fd);
    }
    free(line);
}

int fednic_line_fd(const fednic_line *line) {
    return line->fd;
}

uint32_t fednic_line_index(const fednic_line *line) {
    return line->index;
}

uint32_t fednic_line_mtu(const fednic_line *line) {
    return line->mtu;
}

const uint8_t *fednic_line_address(const fednic_line *line) {
    return line->address;
}

bool fednic_line_is_gone(const fednic_line *line) {
    char name[IFNAMSIZ];
    return if_indextoname(line->index, name) == NULL;
}

static void untie(fednic_line *line, unsigned k, fednic_use *use, void *user) {
    struct msghdr *message = &line->in[k].msg_hdr;
    const size_t len = line->in[k].msg_len;
    const uint8_t *bytes = line->slots[k] + TAG_ROOM;
    if (len < FEDNIC_VNET || (message->msg_flags & MSG_TRUNC) != 0) {
        line->counts.missed++;
        return;
    }
    fednic_frame frame = {.data = bytes + FEDNIC_VNET, .len = len - FEDNIC_VNET};
    fednic_vnet_read(bytes, &frame.offload);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        struct tpacket_auxdata more;
        if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA &&
            c->cmsg_len >= CMSG_LEN(sizeof more)) {
            memcpy(&more, CMSG_DATA(c), sizeof more);
            if ((more.tp_status & TP_STATUS_VLAN_VALID) != 0) {
                const bool typed = (more.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
                fednic_vnet_tag(&frame, typed ? more.tp_vlan_tpid : ETH_P_8021Q, more.tp_vlan_tci);
            }
        }
    }
    use(user, &frame);
}

size_t fednic_line_receive(fednic_line *line, fednic_use *use, void *user) {
    for (unsigned k = 0; k < IN; k++) {
        line->in_part[k] = (struct iovec){line->slots[k] + TAG_ROOM, FEDNIC_SLOT - TAG_ROOM};
        line->in[k].msg_hdr = (struct msghdr){.msg_iov = &line->in_part[k],
                                              .msg_iovlen = 1,
                                              .msg_control = line->in_control[k],
                                              .msg_controllen = sizeof line->in_control[k]};
    }
    const int got = recvmmsg(line->fd, line->in, IN, MSG_DONTWAIT, NULL);
    /* after an error, such as that the line went down, later frames may succeed */
    for (int k = 0; k < got; k++) {
        untie(line, (unsigned)k, use, user);
    }
    return got > 0 ? (size_t)got : 0;
}

bool fednic_line_has_room(const fednic_line *line) {
    return line->first + line->queued + MADE <= OUT && line->used + 2 * FEDNIC_FRAME <= ARENA;
}

/* Try to send the whole queue, waiting for the line: a super-segment of many tiny segments may
 * become more frames than has_room keeps free. */
static bool empty_queue(fednic_line *line) {
    struct pollfd line_poll = {.fd = line->fd, .events = POLLOUT};
    fednic_sent sent = fednic_line_flush(line);
    for (int k = 0; k < TRIES && sent != FEDNIC_ALL; k++) {
        (void)poll(&line_poll, sent == FEDNIC_FULL ? 1 : 0, AGAIN_MS);
        sent = fednic_line_flush(line);
    }
    return sent == FEDNIC_ALL;
}

void fednic_line_put(fednic_line *line, const fednic_frame *frame, bool kept) {
    const bool fits =
        line->first + line->queued < OUT && (kept || frame->len <= ARENA - line->used);
    if (!fits && !empty_queue(line)) {
        line->counts.refused++;
        return;
    }
    const unsigned k = line->first + line->queued;
    const uint8_t *data = frame->data;
    if (!kept) {
        uint8_t *copy = line->arena + line->used;
        memcpy(copy, frame->data, frame->len);
        line->used += frame->len;
        data = copy;
    }
    fednic_vnet_write(&frame->offload, &line->out_header[k]);
    line->out_parts[k][0] = (struct iovec){&line->out_header[k], FEDNIC_VNET};
    line->out_parts[k][1] = (struct iovec){(uint8_t *)data, frame->len};
    line->out[k].msg_hdr = (struct msghdr){.msg_iov = line->out_parts[k], .msg_iovlen = 2};
    line->queued++;
}

/* ENOBUFS: the queue is full, or the frame can never be sent, as on a veth whose far end is down or
 * has a smaller MTU. So a frame is dropped after TRIES tries. */
fednic_sent fednic_line_flush(fednic_line *line) {
    while (line->queued > 0) {
        const int sent = sendmmsg(line->fd, line->out + line->first, line->queued, MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && (errno == EAGAIN || (errno == ENOBUFS && ++line->tries < TRIES))) {
            line->counts.waits++;
            return errno == EAGAIN ? FEDNIC_FULL : FEDNIC_LATER;
        }
        line->tries = 0;
        line->counts.refused += sent < 0;
        const unsigned done = sent < 0 ? 1 : (unsigned)sent;
        line->first += done;
        line->queued -= done;
    }
    line->first = 0;
    line->used = 0;
    return FEDNIC_ALL;
}

void fednic_line_count(fednic_line *line, fednic_line_counts *counts) {
    struct tpacket_stats since;
    socklen_t len = sizeof since;
    if (getsockopt(line->fd, SOL_PACKET, PACKET_STATISTICS, &since, &len) == 0) {
        line->counts.missed += since.tp_drops; /* reading resets the kernel's counter */
    }
    *counts = line->counts;
}
