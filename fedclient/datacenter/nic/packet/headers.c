/* Read and change headers of Ethernet, 802.1Q, IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/headers.h"

#include "fedclient/datacenter/nic/packet/checksum.h"

enum { ETHERNET = 14, VLAN = 4, VLANS = 2, VLAN_ID = 0xfff };
enum { TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, TYPE_8021Q = 0x8100, TYPE_8021AD = 0x88a8 };

enum { IPV4_LEAST = 20, IPV4_TOS = 1, IPV4_LENGTH = 2, IPV4_ID = 4, IPV4_PIECE = 6 };
enum { IPV4_PROTOCOL = 9, IPV4_CHECKSUM = 10, IPV4_ADDRESSES = 12 };
enum { DONT_CUT = 0x4000, MORE_AND_OFFSET = 0x3fff };

enum { IPV6_SIZE = 40, IPV6_LENGTH = 4, IPV6_NEXT = 6, IPV6_ADDRESSES = 8 };

enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_MD5 = 19, OPTION_AO = 29, OPTION_MULTIPATH = 30 };

/* Skip the Ethernet header and VLAN tags. Returns the packet's EtherType, or 0 if the frame is too
 * short. */
static uint16_t skip_ethernet(const uint8_t *data, size_t len, fednic_segment *s) {
    s->vlan[0] = s->vlan[1] = 0;
    if (len < ETHERNET) {
        return 0;
    }
    size_t at = ETHERNET;
    uint16_t type = fednic_get16(data + at - 2);
    for (size_t k = 0; k < VLANS && (type == TYPE_8021Q || type == TYPE_8021AD); k++) {
        if (len - at < VLAN) {
            return 0;
        }
        s->vlan[k] = (uint16_t)((fednic_get16(data + at) & VLAN_ID) + 1);
        at += VLAN;
        type = fednic_get16(data + at - 2);
    }
    s->ip = at;
    return type;
}

/* *end: where the IPv4 packet ends. */
static bool skip_ipv4(const uint8_t *data, size_t len, fednic_segment *s, size_t *end) {
    const uint8_t *ip = data + s->ip;
    size_t left = len - s->ip;
    if (left < IPV4_LEAST || ip[0] >> 4 != 4 || ip[IPV4_PROTOCOL] != PROTOCOL_TCP) {
        return false;
    }
    size_t header = (size_t)(ip[0] & 15) * 4, total = fednic_get16(ip + IPV4_LENGTH);
    uint16_t piece = fednic_get16(ip + IPV4_PIECE);
    if (header < IPV4_LEAST || total < header || total > left || (piece & MORE_AND_OFFSET) != 0) {
        return false;
    }
    s->family = 4;
    s->tos = ip[IPV4_TOS];
    s->whole = (piece & DONT_CUT) != 0;
    s->tcp = s->ip + header;
    *end = s->ip + total;
    return true;
}

static bool skip_ipv6(const uint8_t *data, size_t len, fednic_segment *s, size_t *end) {
    const uint8_t *ip = data + s->ip;
    size_t left = len - s->ip;
    if (left < IPV6_SIZE || ip[0] >> 4 != 6 || ip[IPV6_NEXT] != PROTOCOL_TCP) {
        return false;
    }
    size_t length = fednic_get16(ip + IPV6_LENGTH);
    if (length > left - IPV6_SIZE) {
        return false;
    }
    s->family = 6;
    s->tos = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
    s->whole = true;
    s->tcp = s->ip + IPV6_SIZE;
    *end = s->tcp + length;
    return true;
}

bool fednic_segment_find(const uint8_t *data, size_t len, fednic_segment *s) {
    uint16_t type = skip_ethernet(data, len, s);
    size_t end;
    if (!(type == TYPE_IPV4 && skip_ipv4(data, len, s, &end)) &&
        !(type == TYPE_IPV6 && skip_ipv6(data, len, s, &end))) {
        return false;
    }
    if (end - s->tcp < TCP_LEAST) {
        return false;
    }
    const uint8_t *tcp = data + s->tcp;
    size_t header = (size_t)(tcp[TCP_SIZE] >> 4) * 4;
    if (header < TCP_LEAST || header > end - s->tcp) {
        return false;
    }
    s->payload = s->tcp + header;
    s->payload_len = end - s->payload;
    s->flags = tcp[TCP_FLAGS];
    s->seq = fednic_get32(tcp + TCP_SEQ);
    s->ack = fednic_get32(tcp + TCP_ACKED);
    return true;
}

fednic_tcp_options fednic_tcp_options_of(const uint8_t *data, const fednic_segment *s) {
    fednic_tcp_options found = {.sound = true};
    const uint8_t *at = data + s->tcp + TCP_LEAST, *end = data + s->payload;
    while (at < end && at[0] != OPTION_END) {
        if (at[0] == OPTION_NOP) {
            at++;
            continue;
        }
        if (end - at < 2 || at[1] < 2 || at[1] > end - at) {
            found.sound = false;
            return found;
        }
        found.refuses |= at[0] == OPTION_MD5 || at[0] == OPTION_AO || at[0] == OPTION_MULTIPATH;
        found.nic |= at[1] == FEDNIC_OPTION_LEN && fednic_get32(at) == FEDNIC_OPTION;
        at += at[1];
    }
    return found;
}

uint16_t fednic_pseudo_sum(const uint8_t *data, const fednic_segment *s, uint16_t protocol,
                           size_t tcp_len) {
    const uint8_t *ip = data + s->ip;
    uint16_t addresses =
        s->family == 4 ? fednic_sum(ip + IPV4_ADDRESSES, 8) : fednic_sum(ip + IPV6_ADDRESSES, 32);
    return fednic_sum_add(fednic_sum_add(addresses, protocol), (uint16_t)tcp_len);
}

bool fednic_ip_holds(const fednic_segment *s, size_t tcp_len) {
    return tcp_len <= UINT16_MAX - (s->family == 4 ? s->tcp - s->ip : 0);
}

void fednic_ip_change(uint8_t *data, const fednic_segment *s, size_t tcp_len, uint8_t tos,
                      uint16_t later) {
    uint8_t *ip = data + s->ip;
    if (s->family == 6) {
        ip[0] = (uint8_t)((ip[0] & 0xf0) | tos >> 4);
        ip[1] = (uint8_t)((ip[1] & 0x0f) | tos << 4);
        fednic_put16(ip + IPV6_LENGTH, (uint16_t)tcp_len);
        return;
    }
    uint16_t old = fednic_sum(ip, IPV4_ID + 2); /* only the first three 16-bit words change */
    ip[IPV4_TOS] = tos;
    fednic_put16(ip + IPV4_LENGTH, (uint16_t)(s->tcp - s->ip + tcp_len));
    fednic_put16(ip + IPV4_ID, (uint16_t)(fednic_get16(ip + IPV4_ID) + later));
    uint16_t field = fednic_get16(ip + IPV4_CHECKSUM);
    fednic_put16(ip + IPV4_CHECKSUM,
                 fednic_checksum_update(field, old, fednic_sum(ip, IPV4_ID + 2)));
}
