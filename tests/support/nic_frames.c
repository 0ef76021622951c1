/* Builds frames of TCP segments, and checks frames without the NIC's code. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ip_tos.h"

enum { ETHERNET = 14, VLAN = 4, HEAP = sizeof((nic_heap){0}.frame) / sizeof(fednic_frame) };

static void put16(uint8_t *at, size_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static uint32_t get16(const uint8_t *at) {
    return (uint32_t)at[0] << 8 | at[1];
}

/* The Internet checksum of RFC 1071. */
static uint32_t plain_sum(uint32_t sum, const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        sum += i % 2 == 0 ? (uint32_t)data[i] << 8 : data[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

static uint32_t pseudo(const uint8_t *ip, uint8_t family, uint8_t protocol, size_t tcp_len) {
    uint8_t end[4] = {0, protocol, (uint8_t)(tcp_len >> 8), (uint8_t)tcp_len};
    uint32_t sum = plain_sum(0, ip + (family == 4 ? 12 : 8), family == 4 ? 8 : 32);
    return plain_sum(sum, end, sizeof end);
}

static size_t put_ip(const nic_shape *shape, uint8_t *ip, size_t tcp_len) {
    const uint8_t first = shape->backwards ? 2 : 1, second = shape->backwards ? 1 : 2;
    if (shape->family == 6) {
        memset(ip, 0, 40);
        ip[0] = (uint8_t)(0x60 | shape->tos >> 4);
        ip[1] = (uint8_t)(shape->tos << 4);
        put16(ip + 4, tcp_len);
        ip[6] = 6;
        ip[7] = 64;
        ip[8] = ip[24] = 0xfd;
        ip[23] = first;
        ip[39] = second;
        return 40;
    }
    const size_t size = 20 + 4 * (size_t)shape->ip_words;
    memset(ip, 0, size);
    memset(ip + 20, 1, size - 20); /* 1: "no operation" */
    ip[0] = (uint8_t)(0x40 | size / 4);
    ip[1] = shape->tos;
    put16(ip + 2, size + tcp_len);
    put16(ip + 4, shape->id);
    ip[6] = shape->may_cut ? 0 : 0x40;
    ip[8] = 64;
    ip[9] = 6;
    ip[12] = ip[16] = 10;
    ip[15] = first;
    ip[19] = second;
    put16(ip + 10, ~plain_sum(0, ip, size) & 0xffff);
    return size;
}

static void put_tcp(const nic_shape *shape, uint8_t *tcp, size_t size) {
    const size_t own = 40000 + (size_t)shape->port;
    memset(tcp, 0, size);
    put16(tcp, shape->backwards ? 7000 : own);
    put16(tcp + 2, shape->backwards ? own : 7000);
    put32(tcp + 4, shape->seq);
    put32(tcp + 8, shape->ack);
    tcp[12] = (uint8_t)(size / 4 << 4);
    tcp[13] = shape->flags;
    put16(tcp + 14, 512);
    if (shape->option_words > 0) {
        memcpy(tcp + 20, shape->options, size - 20);
    }
}

fednic_frame nic_frame(const nic_shape *shape, const void *payload, size_t len, uint8_t *memory) {
    const uint8_t family = shape->family;
    memset(memory, 0x22, 12);
    size_t at = 12;
    for (uint8_t k = 0; k < shape->vlans; k++) {
        put16(memory + at, k + 1 == shape->vlans ? 0x8100 : 0x88a8);
        put16(memory + at + 2, 100u + k);
        at += VLAN;
    }
    put16(memory + at, family == 4 ? 0x0800 : 0x86dd);
    uint8_t *ip = memory + at + 2;
    const size_t header = 20 + 4 * (size_t)shape->option_words, tcp_len = header + len;
    uint8_t *tcp = ip + put_ip(shape, ip, tcp_len);
    put_tcp(shape, tcp, header);
    if (len > 0) {
        memcpy(tcp + header, payload, len);
    }
    uint32_t sum = pseudo(ip, family, shape->protocol > 0 ? shape->protocol : 6, tcp_len);
    put16(tcp + 16, shape->partial ? sum : ~plain_sum(sum, tcp, tcp_len) & 0xffff);
    memset(tcp + tcp_len, 0, shape->padding);
    fednic_frame frame = {memory, (size_t)(tcp - memory) + tcp_len + shape->padding, {0}};
    if (shape->partial) {
        frame.offload.flags = FRAME_NEEDS_CSUM;
        frame.offload.csum_start = (uint16_t)(tcp - memory);
        frame.offload.csum_offset = 16;
    }
    if (shape->gso_size > 0) {
        unsigned type = family == 4 ? FRAME_TCPV4 : FRAME_TCPV6;
        type |= (shape->flags & SEG_CWR) != 0 ? FRAME_ECN : 0;
        frame.offload.gso_type = (uint8_t)type;
        frame.offload.gso_size = shape->gso_size;
        frame.offload.hdr_len = (uint16_t)(tcp - memory + (ptrdiff_t)header);
    }
    return frame;
}

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "a frame of %zu bytes is wrong: %s does not hold\n", frame->len,       \
                    #cond);                                                                        \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool read_ip(const fednic_frame *frame, nic_parts *p, size_t *end) {
    const uint8_t *ip = frame->data + p->ip;
    MUST(frame->len >= p->ip + 40);
    p->family = ip[0] >> 4;
    if (p->family == 6) {
        MUST(ip[6] == 6);
        p->tos = ip_tos(ip);
        p->tcp = p->ip + 40;
        *end = p->tcp + get16(ip + 4);
        return true;
    }
    const size_t size = 4 * (size_t)(ip[0] & 15);
    MUST(p->family == 4 && size >= 20 && ip[9] == 6);
    MUST(plain_sum(0, ip, size) == 0xffff);
    p->tos = ip[1];
    p->id = (uint16_t)get16(ip + 4);
    p->tcp = p->ip + size;
    *end = p->ip + get16(ip + 2);
    return true;
}

static bool check_offload(const fednic_frame *frame, const nic_parts *p, uint8_t protocol) {
    const fednic_offload *o = &frame->offload;
    const uint8_t *tcp = frame->data + p->tcp;
    const size_t tcp_len = p->payload - p->tcp + p->payload_len;
    const uint32_t sum = pseudo(frame->data + p->ip, p->family, protocol, tcp_len);
    if ((o->flags & FRAME_NEEDS_CSUM) != 0) {
        MUST(o->csum_start == p->tcp && o->csum_offset == 16);
        MUST(get16(tcp + 16) % 0xffff == sum % 0xffff);
    } else {
        MUST(plain_sum(sum, tcp, tcp_len) == 0xffff);
    }
    MUST(o->hdr_len == 0 || o->hdr_len == p->payload);
    if (o->gso_type == 0) {
        MUST(o->gso_size == 0);
        return true;
    }
    MUST((o->flags & FRAME_NEEDS_CSUM) != 0 && o->gso_size > 0 && o->hdr_len == p->payload);
    MUST((o->gso_type & ~FRAME_ECN) == (p->family == 4 ? FRAME_TCPV4 : FRAME_TCPV6));
    MUST(((o->gso_type & FRAME_ECN) != 0) == ((p->flags & SEG_CWR) != 0));
    return true;
}

bool nic_frame_read(const fednic_frame *frame, uint8_t protocol, nic_parts *parts) {
    nic_parts p = {.ip = ETHERNET};
    MUST(frame->len >= ETHERNET);
    while (frame->data[p.ip - 2] == 0x81 || frame->data[p.ip - 2] == 0x88) {
        p.ip += VLAN;
    }
    size_t end;
    if (!read_ip(frame, &p, &end)) {
        return false;
    }
    MUST(end <= frame->len && end >= p.tcp + 20);
    p.payload = p.tcp + 4 * (size_t)(frame->data[p.tcp + 12] >> 4);
    MUST(p.payload >= p.tcp + 20 && p.payload <= end);
    p.payload_len = end - p.payload;
    p.flags = frame->data[p.tcp + 13];
    p.seq = get16(frame->data + p.tcp + 4) << 16 | get16(frame->data + p.tcp + 6);
    *parts = p;
    return check_offload(frame, &p, protocol);
}

fednic_frame nic_frame_completed(const fednic_frame *frame, uint8_t *memory) {
    const fednic_offload *o = &frame->offload;
    memcpy(memory, frame->data, frame->len);
    if ((o->flags & FRAME_NEEDS_CSUM) != 0) {
        uint32_t sum = plain_sum(0, memory + o->csum_start, frame->len - o->csum_start);
        put16(memory + o->csum_start + o->csum_offset, ~sum & 0xffff);
    }
    return (fednic_frame){memory, frame->len, {0}};
}

nic_heap *nic_heap_new(void) {
    nic_heap *heap = calloc(1, sizeof *heap);
    if (heap == NULL || (heap->memory = malloc((size_t)HEAP * FRAME_ROOM)) == NULL) {
        fprintf(stderr, "out of memory for the NIC's frames\n");
        abort();
    }
    return heap;
}

void nic_heap_free(nic_heap *heap) {
    free(heap->memory);
    free(heap);
}

void nic_heap_keep(void *user, const fednic_frame *frame) {
    nic_heap *heap = user;
    if (heap->count == HEAP || frame->len > FRAME_ROOM) {
        fprintf(stderr, "nic_heap_keep: more than %d frames, or a frame of %zu bytes is too long\n",
                (int)HEAP, frame->len);
        abort();
    }
    uint8_t *to = heap->memory + heap->count * FRAME_ROOM;
    memcpy(to, frame->data, frame->len);
    heap->frame[heap->count] = *frame;
    heap->frame[heap->count++].data = to;
}
