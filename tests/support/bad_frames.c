/* What a bad line does to one frame: it cuts segments, completes checksums, changes headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bad_frames.h"

#include <string.h>

#include "ip_tos.h"

enum {
    ETHERNET = 14,
    VLAN_TAG = 4,
    TCP = 6,
    IP6_HEADER = 40,
    TCP_HEADER = 20,
    TCP_SUM = 16,
    FIN_PSH = 0x09,
    CWR = 0x80,
    SYN_RST_URG = 0x26
};

static uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *p) {
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void put32(uint8_t *p, uint32_t v) {
    put16(p, v >> 16);
    put16(p + 2, v & 0xffff);
}

static uint64_t sum(const uint8_t *data, size_t len, uint64_t total) {
    for (; len >= 2; data += 2, len -= 2) {
        total += get16(data);
    }
    return len == 1 ? total + (uint64_t)(data[0] << 8) : total;
}

static uint16_t fold(uint64_t total) {
    while (total >> 16 != 0) {
        total = (total & 0xffff) + (total >> 16);
    }
    return (uint16_t)total;
}

static bool parts_of_ip4(const bad_frame *f, bad_parts *p) {
    const uint8_t *ip = f->data + p->ip;
    size_t room = f->len - p->ip;
    if (room < 20 || ip[0] >> 4 != 4 || (ip[0] & 15) < 5) {
        return false;
    }
    size_t head = (size_t)(ip[0] & 15) * 4;
    size_t all = get16(ip + 2);
    if (head > all || all > room) {
        return false;
    }
    p->family = 4;
    p->transport = p->ip + head;
    p->end = p->ip + all;
    p->tcp = ip[9] == TCP && (get16(ip + 6) & 0x3fff) == 0;
    return true;
}

static bool parts_of_ip6(const bad_frame *f, bad_parts *p) {
    const uint8_t *ip = f->data + p->ip;
    size_t room = f->len - p->ip;
    if (room < IP6_HEADER || ip[0] >> 4 != 6 || get16(ip + 4) > room - IP6_HEADER) {
        return false;
    }
    p->family = 6;
    p->transport = p->ip + IP6_HEADER;
    p->end = p->transport + get16(ip + 4);
    p->tcp = ip[6] == TCP;
    return true;
}

bad_parts bad_frame_parts(const bad_frame *frame) {
    bad_parts p = {.ip = ETHERNET};
    if (frame->len < ETHERNET + VLAN_TAG) {
        return p;
    }
    uint16_t type = get16(frame->data + 12);
    if (type == 0x8100) {
        p.ip += VLAN_TAG;
        type = get16(frame->data + 16);
    }
    bool good =
        (type == 0x0800 && parts_of_ip4(frame, &p)) || (type == 0x86dd && parts_of_ip6(frame, &p));
    if (!good || !p.tcp) {
        p.tcp = false;
        return p;
    }
    size_t room = p.end - p.transport;
    size_t head = room < TCP_HEADER ? 0 : (size_t)(frame->data[p.transport + 12] >> 4) * 4;
    p.tcp = head >= TCP_HEADER && head <= room;
    p.payload = p.transport + head;
    return p;
}

static uint64_t pseudo(const bad_frame *f, const bad_parts *p, size_t len) {
    const uint8_t *ip = f->data + p->ip;
    return p->family == 4 ? sum(ip + 12, 8, TCP + len) : sum(ip + 8, 32, TCP + len);
}

uint16_t bad_frame_pseudo(const bad_frame *frame, const bad_parts *parts) {
    return fold(pseudo(frame, parts, parts->end - parts->transport));
}

void bad_frame_complete(bad_frame *frame) {
    struct virtio_net_hdr *v = &frame->offload;
    size_t at = (size_t)v->csum_start + v->csum_offset;
    if ((v->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0 && at + 2 <= frame->len) {
        const uint8_t *from = frame->data + v->csum_start;
        put16(frame->data + at, 0xffffu ^ fold(sum(from, frame->len - v->csum_start, 0)));
    }
    memset(v, 0, sizeof *v);
}

bool bad_frame_whole(const bad_frame *frame, const bad_parts *parts) {
    const uint8_t *tcp = frame->data + parts->transport;
    if ((frame->offload.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0) {
        return get16(tcp + TCP_SUM) == bad_frame_pseudo(frame, parts);
    }
    size_t len = parts->end - parts->transport;
    return fold(sum(tcp, len, pseudo(frame, parts, len))) == 0xffff;
}

static void write_ip4_sum(uint8_t *ip) {
    put16(ip + 10, 0);
    put16(ip + 10, 0xffffu ^ fold(sum(ip, (size_t)(ip[0] & 15) * 4, 0)));
}

void bad_frame_set_tos(bad_frame *frame, const bad_parts *parts, uint8_t keep, uint8_t set) {
    uint8_t *ip = frame->data + parts->ip;
    if (parts->family == 4) {
        ip[1] = (uint8_t)((ip[1] & keep) | set);
        write_ip4_sum(ip);
    } else if (parts->family == 6) {
        const uint8_t tos = (uint8_t)((ip_tos(ip) & keep) | set);
        ip[0] = (uint8_t)(0x60 | tos >> 4);
        ip[1] = (uint8_t)((ip[1] & 15) | (tos & 15) << 4);
    }
}

static void make_piece(const bad_frame *whole, const bad_parts *p, size_t from, size_t to,
                       uint32_t number, bad_frame *piece) {
    size_t head = p->payload;
    memcpy(piece->data, whole->data, head);
    memcpy(piece->data + head, whole->data + head + from, to - from);
    piece->len = head + to - from;
    memset(&piece->offload, 0, sizeof piece->offload);
    uint8_t *ip = piece->data + p->ip;
    uint8_t *tcp = piece->data + p->transport;
    size_t len = piece->len - p->transport;
    if (p->family == 4) {
        put16(ip + 2, (uint32_t)(piece->len - p->ip));
        put16(ip + 4, (get16(ip + 4) + number) & 0xffffu);
        write_ip4_sum(ip);
    } else {
        put16(ip + 4, (uint32_t)len);
    }
    put32(tcp + 4, get32(tcp + 4) + (uint32_t)from);
    if (head + to < p->end) {
        tcp[13] &= (uint8_t)~FIN_PSH;
    }
    if (from > 0) {
        tcp[13] &= (uint8_t)~CWR;
    }
    put16(tcp + TCP_SUM, 0);
    put16(tcp + TCP_SUM, 0xffffu ^ fold(sum(tcp, len, pseudo(piece, p, len))));
}

void bad_frame_cut(bad_frame *frame, uint32_t least, uint32_t most, fed_rng *rng, bad_frame *piece,
                   bad_use *use, void *user) {
    bad_parts p = bad_frame_parts(frame);
    if (!p.tcp || (frame->data[p.transport + 13] & SYN_RST_URG) != 0 ||
        !bad_frame_whole(frame, &p)) {
        use(user, frame);
        return;
    }
    if (most == 0) {
        most = frame->offload.gso_size > 0 ? frame->offload.gso_size : BAD_FRAME;
        least = most;
    }
    size_t end = p.end - p.payload;
    size_t from = 0;
    uint32_t number = 0;
    do {
        size_t len = least + (most > least ? fed_rng_below(rng, most - least + 1) : 0);
        size_t to = len < end - from ? from + len : end;
        make_piece(frame, &p, from, to, number++, piece);
        use(user, piece);
        from = to;
    } while (from < end);
}
