/* Find the Ethernet, VLAN, IP and TCP headers of a frame, and change them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_HEADERS_H
#define FEDNIC_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedclient/datacenter/nic/packet/frame.h"

enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_PSH = 8, TCP_ACK = 16, TCP_URG = 32 };
enum { TCP_CWR = 128 };

/* Offsets in TCP's header, and its least and largest size. */
enum { TCP_SEQ = 4, TCP_ACKED = 8, TCP_SIZE = 12, TCP_FLAGS = 13, TCP_CHECKSUM = 16 };
enum { TCP_LEAST = 20, TCP_MOST = 60 };

/* Values of flags and gso_type in struct virtio_net_hdr. */
enum { OFFLOAD_NEEDS_CSUM = 1, OFFLOAD_DATA_VALID = 2 };
enum { OFFLOAD_TCPV4 = 1, OFFLOAD_TCPV6 = 4, OFFLOAD_ECN = 0x80 };

/* The NIC's TCP option: kind 253 (RFC 4727), length 4, 0xFED1. */
enum { FEDNIC_OPTION_LEN = 4 };
#define FEDNIC_OPTION UINT32_C(0xfd04fed1)

/* IP's protocol number of TCP, and the number that replaces it in a compressed segment's
 * checksum. */
enum { PROTOCOL_TCP = 6, PROTOCOL_TWISTED = 253 };

/* A frame's TCP segment or super-segment (many segments in one). Offsets count from the frame's
 * first byte. */
typedef struct fednic_segment {
    size_t ip, tcp, payload;
    size_t payload_len;
    uint8_t family; /* 4 or 6, for IPv4 or IPv6 */
    uint8_t tos;    /* IPv4's ToS or IPv6's traffic class */
    uint8_t flags;
    bool whole; /* routers may not fragment the packet: IPv6, or IPv4 with DF */
    uint32_t seq, ack;
    uint16_t vlan[2]; /* VLAN ids + 1; 0: no tag */
} fednic_segment;

/** false: the frame has no complete TCP segment; *s is arbitrary then. */
bool fednic_segment_find(const uint8_t *data, size_t len, fednic_segment *s);

typedef struct fednic_tcp_options {
    bool sound; /* each option ends within the header */
    bool nic;
    bool refuses; /* an option forbids changes: MD5, authentication or Multipath TCP */
} fednic_tcp_options;

fednic_tcp_options fednic_tcp_options_of(const uint8_t *data, const fednic_segment *s);

static inline uint16_t fednic_get16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t fednic_get32(const uint8_t *at) {
    return (uint32_t)fednic_get16(at) << 16 | fednic_get16(at + 2);
}

static inline void fednic_put16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void fednic_put32(uint8_t *at, uint32_t value) {
    fednic_put16(at, (uint16_t)(value >> 16));
    fednic_put16(at + 2, (uint16_t)value);
}

static inline size_t fednic_tcp_header(const fednic_segment *s) {
    return s->payload - s->tcp;
}

/** The sum of the pseudo-header with this protocol number. tcp_len: bytes of TCP header and
 * payload. */
uint16_t fednic_pseudo_sum(const uint8_t *data, const fednic_segment *s, uint16_t protocol,
                           size_t tcp_len);

/** Write IP's length field for tcp_len bytes of TCP header and payload, and its ToS; add `later` to
 * IPv4's identification. Update IPv4's checksum; a wrong one stays wrong. */
void fednic_ip_change(uint8_t *data, const fednic_segment *s, size_t tcp_len, uint8_t tos,
                      uint16_t later);

/** Return whether IP's length field can hold tcp_len bytes of TCP header and payload. */
bool fednic_ip_holds(const fednic_segment *s, size_t tcp_len);

#endif
