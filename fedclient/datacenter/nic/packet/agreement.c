/* Two NICs agree, by a TCP option, to compress a connection. See docs/nic-format.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/agreement.h"

#include <string.h>

#include "fedclient/datacenter/nic/packet/checksum.h"

/* A middlebox may drop SYNs with an unknown option. So after OFFERS SYNs the NIC leaves the option
 * out. */
enum { OFFERS = 3 };

/* A new connection has the same addresses and ports: forget the old flow, except the peer's offer,
 * which may belong to the new connection. */
static fednic_flow *begin(fednic_flows *flows, fednic_flow *flow, uint32_t isn, int64_t now_ms) {
    const fednic_flow old = *flow;
    fednic_flows_drop(flows, flow);
    flow = fednic_flows_enter(flows, &old.key, now_ms);
    flow->own_isn = isn;
    flow->own_known = true;
    flow->peer_isn = old.peer_isn;
    flow->offered = old.offered;
    return flow;
}

static bool begins_anew(const fednic_flow *flow, const fednic_segment *s) {
    return !flow->own_known || flow->own_isn != s->seq;
}

/* Return whether a segment acknowledges the SYN with this sequence number. With TCP Fast Open a SYN
 * has data, which the answer acknowledges too. */
static bool acknowledges_syn(const fednic_segment *s, uint32_t isn) {
    return s->ack - isn - 1 <= UINT16_MAX;
}

/* Return whether the option may be added: it fits into TCP's header and the MTU, and was not
 * offered too often. Counts the offer. */
static bool offer(fednic_flow *flow, const fednic_segment *s, uint32_t mtu) {
    bool fits = fednic_tcp_header(s) + FEDNIC_OPTION_LEN <= TCP_MOST &&
                s->payload + s->payload_len - s->ip + FEDNIC_OPTION_LEN <= mtu;
    if (!fits || flow->offers >= OFFERS) {
        return false;
    }
    flow->offers++;
    return true;
}

static bool answer(fednic_flows *flows, fednic_flow *flow, const fednic_segment *s, bool may_change,
                   uint32_t mtu, int64_t now_ms) {
    if (flow == NULL) {
        return false;
    }
    bool offered = flow->offered && acknowledges_syn(s, flow->peer_isn);
    if (!may_change || (!offered && begins_anew(flow, s))) {
        fednic_flows_drop(flows, flow);
        return false;
    }
    if (!offered) {
        return false;
    }
    if (begins_anew(flow, s)) {
        flow = begin(flows, flow, s->seq, now_ms);
    }
    flow->agreed = true;
    fednic_flows_use(flows, flow, false, now_ms);
    return offer(flow, s, mtu);
}

bool fednic_agree_host(fednic_flows *flows, const uint8_t *data, const fednic_segment *s,
                       uint32_t mtu, int64_t now_ms) {
    fednic_flow_key key = fednic_flow_key_of(data, s, FEDNIC_HOST);
    fednic_flow *flow = fednic_flows_find(flows, &key);
    fednic_tcp_options options = fednic_tcp_options_of(data, s);
    /* If the SYN has the option already, another NIC is nearer to the host and does the work. */
    bool may_change = options.sound && !options.nic && !options.refuses;
    if ((s->flags & TCP_ACK) != 0) {
        return answer(flows, flow, s, may_change, mtu, now_ms);
    }
    if (!may_change || (s->tos & FEDNIC_TOS) != FEDNIC_MARKED) {
        if (flow != NULL && (!may_change || begins_anew(flow, s))) {
            fednic_flows_drop(flows, flow);
        }
        return false;
    }
    if (flow == NULL) {
        flow = fednic_flows_enter(flows, &key, now_ms);
    }
    if (begins_anew(flow, s)) {
        flow = begin(flows, flow, s->seq, now_ms);
    }
    fednic_flows_use(flows, flow, false, now_ms);
    return offer(flow, s, mtu);
}

void fednic_agree_wire(fednic_flows *flows, const uint8_t *data, const fednic_segment *s,
                       int64_t now_ms) {
    fednic_flow_key key = fednic_flow_key_of(data, s, FEDNIC_WIRE);
    fednic_flow *flow = fednic_flows_find(flows, &key);
    fednic_tcp_options options = fednic_tcp_options_of(data, s);
    bool nic = options.sound && options.nic;
    if ((s->flags & TCP_ACK) != 0) {
        if (nic && flow != NULL && flow->offers > 0 && acknowledges_syn(s, flow->own_isn)) {
            flow->agreed = true;
            fednic_flows_use(flows, flow, false, now_ms);
        }
        return;
    }
    if (nic) {
        if (flow == NULL) {
            flow = fednic_flows_enter(flows, &key, now_ms);
        }
        flow->offered = true;
        flow->peer_isn = s->seq;
        fednic_flows_use(flows, flow, false, now_ms);
    } else if (flow != NULL && flow->peer_isn != s->seq) {
        /* a new SYN without the option takes the offer back, a repeated one does not */
        flow->offered = false;
    }
}

void fednic_option_add(const fednic_frame *frame, const fednic_segment *s, uint8_t *bytes,
                       fednic_frame *dst) {
    const size_t first = s->tcp + TCP_LEAST, end = s->payload + s->payload_len;
    const size_t tcp_len = end - s->tcp + FEDNIC_OPTION_LEN;
    memcpy(bytes, frame->data, first);
    /* the option comes first, because options behind an end-of-list option are not read */
    fednic_put32(bytes + first, FEDNIC_OPTION);
    memcpy(bytes + first + FEDNIC_OPTION_LEN, frame->data + first, end - first);
    uint8_t *tcp = bytes + s->tcp;
    uint16_t old = fednic_get16(tcp + TCP_SIZE);
    tcp[TCP_SIZE] = (uint8_t)(tcp[TCP_SIZE] + (FEDNIC_OPTION_LEN << 2));
    uint16_t field = fednic_get16(tcp + TCP_CHECKSUM);
    if ((frame->offload.flags & OFFLOAD_NEEDS_CSUM) != 0) {
        /* the pseudo-header contains TCP's length */
        field = fednic_sum_add(field, FEDNIC_OPTION_LEN);
    } else {
        uint16_t gained = fednic_sum_add(fednic_get16(tcp + TCP_SIZE), FEDNIC_OPTION_LEN);
        gained = fednic_sum_add(gained, fednic_sum(bytes + first, FEDNIC_OPTION_LEN));
        field = fednic_checksum_update(field, old, gained);
    }
    fednic_put16(tcp + TCP_CHECKSUM, field);
    fednic_ip_change(bytes, s, tcp_len, s->tos, 0);
    *dst = (fednic_frame){bytes, end + FEDNIC_OPTION_LEN, frame->offload};
    if (dst->offload.hdr_len > 0) {
        dst->offload.hdr_len = (uint16_t)(dst->offload.hdr_len + FEDNIC_OPTION_LEN);
    }
}
