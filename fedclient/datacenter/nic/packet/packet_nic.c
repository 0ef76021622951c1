/* The software NIC: compress, restore or forward each frame. See docs/nic-format.md, and
 * INCEPTIONN, section VI. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/packet_nic.h"

#include <stdlib.h>
#include <string.h>

#include "fedclient/datacenter/nic/packet/agreement.h"
#include "fedclient/datacenter/nic/packet/checksum.h"
#include "fedclient/datacenter/nic/packet/flows.h"
#include "fedclient/datacenter/nic/packet/form.h"
#include "fedclient/datacenter/nic/packet/headers.h"

enum { E_MIN = 1, E_MAX = 15 };
enum { FLOWS = 16384, FLOWS_MAX = 1 << 24, MTU = 1500, MTU_MIN = 256, MTU_MAX = 65535 };

/* If TCP sends the same bytes again more often than this, the NIC assumes that compressed segments
 * do not arrive. The limit is lower while no compressed segment was acknowledged yet. */
enum { REPEATS_NEW = 3, REPEATS_PROVED = 6 };
/* If compressed segments seem not to arrive, the next RAW_FIRST bytes are not compressed. Each
 * further failure doubles this number, at most DOUBTS_MOST times. */
enum { RAW_FIRST = 1 << 20, DOUBTS_MOST = 20 };

/* Bytes for a frame's headers, and for a frame with the longest payload when restored. */
enum { HEADERS_MOST = 22 + 60 + TCP_MOST, ROOM = HEADERS_MOST + FEDNIC_PLAIN_MOST };

struct fednic_nic {
    fednic_nic_options options;
    fednic_flows *flows;
    fednic_counts counts[2]; /* index: fednic_side */
    uint8_t made[ROOM];      /* a frame that is compressed, restored or has the option added */
    uint8_t rounded[ROOM];
    float floats[ROOM / 4];
};

typedef struct passage {
    fednic_nic *nic;
    const fednic_frame *frame;
    fednic_emit *emit;
    void *user;
    int64_t now_ms;
    fednic_side from;
    fednic_segment segment; /* valid if the frame has a TCP segment */
    fednic_counts *counts;
} passage;

static void forward(const passage *p) {
    p->emit(p->user, p->frame);
}

typedef struct cutting {
    const passage *p;
    fednic_flow *flow;
    size_t unit;
    size_t raw; /* bytes from here to the current position wait to be sent uncompressed */
    uint16_t packets;
} cutting;

static bool many_in_one(const fednic_frame *frame) {
    return frame->offload.gso_type != 0;
}

static bool needs_csum(const fednic_frame *frame) {
    return (frame->offload.flags & OFFLOAD_NEEDS_CSUM) != 0;
}

static bool csum_is_of_tcp(const fednic_frame *frame, const fednic_segment *s) {
    return frame->offload.csum_start == s->tcp && frame->offload.csum_offset == TCP_CHECKSUM;
}

/* Return whether a checksum of only the pseudo-header is right for this protocol number. */
static bool pseudo_fits(const fednic_frame *frame, const fednic_segment *s, uint16_t protocol) {
    size_t tcp_len = fednic_tcp_header(s) + s->payload_len;
    uint16_t wanted = fednic_pseudo_sum(frame->data, s, protocol, tcp_len);
    uint16_t field = fednic_get16(frame->data + s->tcp + TCP_CHECKSUM);
    return fednic_sum_less(field, wanted) % UINT16_MAX == 0;
}

/* Return whether the offload data are as Linux's TCP makes them. */
static bool offload_is_sound(const fednic_frame *frame, const fednic_segment *s) {
    const fednic_offload *o = &frame->offload;
    if (needs_csum(frame) && (!csum_is_of_tcp(frame, s) || !pseudo_fits(frame, s, PROTOCOL_TCP))) {
        return false;
    }
    uint8_t type = s->family == 4 ? OFFLOAD_TCPV4 : OFFLOAD_TCPV6;
    return !many_in_one(frame) ||
           ((o->gso_type & ~OFFLOAD_ECN) == type && o->gso_size > 0 && needs_csum(frame));
}

static bool may_be_coded(const passage *p) {
    const fednic_segment *s = &p->segment;
    return s->whole && (s->flags & (TCP_SYN | TCP_RST | TCP_URG)) == 0 &&
           offload_is_sound(p->frame, s);
}

/* Write the checksum of an otherwise complete packet. A compressed segment's checksum is complete,
 * and made with another protocol number, so that a receiver without a NIC finds it wrong. */
static void write_checksum(const cutting *c, uint8_t *bytes, size_t len, bool coded) {
    const fednic_frame *frame = c->p->frame;
    const fednic_segment *s = &c->p->segment;
    const size_t header = fednic_tcp_header(s);
    const uint16_t protocol = coded ? PROTOCOL_TWISTED : PROTOCOL_TCP;
    uint8_t *at = bytes + s->tcp + TCP_CHECKSUM;
    if (needs_csum(frame)) {
        uint16_t sum = fednic_pseudo_sum(bytes, s, protocol, header + len);
        fednic_put16(at, coded ? 0 : sum);
        if (coded) {
            sum = fednic_sum_add(sum, fednic_sum(bytes + s->tcp, header + len));
            fednic_put16(at, (uint16_t)~sum);
        }
        return;
    }
    /* the packet is the whole segment: only the payload and its length have changed */
    uint16_t old = fednic_sum(frame->data + s->payload, s->payload_len);
    uint16_t gained = fednic_sum(bytes + s->payload, len);
    old = fednic_sum_add(old, fednic_sum_add(PROTOCOL_TCP, (uint16_t)(header + s->payload_len)));
    gained = fednic_sum_add(gained, fednic_sum_add(protocol, (uint16_t)(header + len)));
    fednic_put16(at, fednic_checksum_update(fednic_get16(at), old, gained));
}

/* Write the headers of a packet for the segment's bytes from `at` to `end`, and send it. Its
 * payload of `len` bytes is in place. */
static void send_piece(cutting *c, uint8_t *bytes, size_t at, size_t end, size_t len, bool coded) {
    const passage *p = c->p;
    const fednic_segment *s = &p->segment;
    memcpy(bytes, p->frame->data, s->payload);
    fednic_ip_change(bytes, s, fednic_tcp_header(s) + len,
                     coded ? FEDNIC_COMPRESSED | (s->tos & 3) : s->tos, c->packets);
    uint8_t *tcp = bytes + s->tcp;
    fednic_put32(tcp + TCP_SEQ, s->seq + (uint32_t)at);
    if (end < s->payload_len) {
        tcp[TCP_FLAGS] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    }
    if (at > 0) {
        tcp[TCP_FLAGS] &= (uint8_t)~TCP_CWR;
    }
    fednic_frame out = {bytes, s->payload + len, {0}};
    write_checksum(c, bytes, len, coded);
    if (needs_csum(p->frame) && !coded) {
        fednic_offload *o = &out.offload;
        *o = p->frame->offload;
        o->hdr_len = (uint16_t)s->payload;
        if (len <= c->unit) {
            o->gso_type = 0;
            o->gso_size = 0;
        } else if (at > 0) {
            o->gso_type &= (uint8_t)~OFFLOAD_ECN;
        }
    }
    c->packets = (uint16_t)(c->packets + (len + c->unit - 1) / c->unit);
    c->flow->sent_coded += len;
    p->emit(p->user, &out);
}

/* Send the waiting bytes up to `end` uncompressed but rounded: the values that arrive must not
 * depend on where TCP cuts the stream. */
static void send_raw(cutting *c, size_t end) {
    const passage *p = c->p;
    fednic_nic *nic = p->nic;
    const fednic_segment *s = &p->segment;
    const size_t at = c->raw, len = end - at;
    if (len == 0) {
        return;
    }
    p->counts->grown_frames++;
    const uint32_t stream = s->seq + (uint32_t)at - c->flow->own_isn - 1;
    bool changed =
        fednic_form_round(nic->options.e, p->frame->data + s->payload + at, len,
                          fednic_form_lead(stream, len), nic->floats, nic->rounded + s->payload);
    if (changed || len < s->payload_len) {
        send_piece(c, nic->rounded, at, end, len, false);
    } else {
        c->flow->sent_coded += len;
        forward(p);
    }
    c->raw = end;
}

/* Try to compress a packet's payload from `at` on. Returns where the next packet begins. */
static size_t next_piece(cutting *c, size_t at) {
    const passage *p = c->p;
    const fednic_segment *s = &p->segment;
    const size_t rest = s->payload_len - at;
    const size_t lead = fednic_form_lead(s->seq + (uint32_t)at - c->flow->own_isn - 1, rest);
    size_t taken = 0, len = 0;
    if (c->flow->raw_left == 0) {
        len = fednic_form_write(p->nic->options.e, p->frame->data + s->payload + at, rest, lead,
                                c->unit < rest ? c->unit : rest - 1, p->nic->made + s->payload,
                                &taken);
    }
    /* compress only the whole rest or at least a full packet's bytes, so that there are never more
     * packets than without compression */
    if (len < taken && (taken == rest || (taken >= c->unit && rest > c->unit))) {
        send_raw(c, at);
        send_piece(c, p->nic->made, at, at + taken, len, true);
        c->raw = at + taken;
        p->counts->coded_frames++;
        p->counts->plain_bytes += taken;
        p->counts->coded_bytes += len;
        return c->raw;
    }
    if (rest <= c->unit) {
        return s->payload_len;
    }
    size_t floats = c->unit > lead ? lead + (c->unit - lead) / 4 * 4 : 0;
    return at + (floats > 0 ? floats : c->unit);
}

/* If TCP sends the same bytes many times, compressed segments may not arrive: a firewall may drop
 * them, or the other NIC is gone. */
static void watch_repeats(fednic_flow *flow, const fednic_segment *s) {
    const uint32_t end = s->seq + (uint32_t)s->payload_len;
    if (flow->sent_any && (int32_t)(s->seq - flow->sent_end) < 0) {
        bool same = flow->repeats > 0 && flow->repeated == s->seq;
        flow->repeats = (uint8_t)(same ? flow->repeats + 1 : 1);
        flow->repeated = s->seq;
        if (flow->repeats > (flow->proved ? REPEATS_PROVED : REPEATS_NEW)) {
            flow->raw_left = (uint64_t)RAW_FIRST << flow->doubts;
            flow->doubts = (uint8_t)(flow->doubts < DOUBTS_MOST ? flow->doubts + 1 : DOUBTS_MOST);
            flow->repeats = 0;
            flow->proved = flow->coded_any = false;
        }
    }
    if (!flow->sent_any || (int32_t)(end - flow->sent_end) > 0) {
        flow->sent_any = true;
        flow->sent_end = end;
    }
}

static void compress(const passage *p, fednic_flow *flow) {
    const fednic_segment *s = &p->segment;
    const size_t len = s->payload_len;
    cutting c = {.p = p, .flow = flow};
    c.unit = many_in_one(p->frame) ? p->frame->offload.gso_size : len;
    watch_repeats(flow, s);
    size_t lead = fednic_form_lead(s->seq - flow->own_isn - 1, len);
    p->counts->split_floats += (len - lead) % 4 > 0;
    const uint64_t coded = p->counts->coded_frames;
    for (size_t at = 0; at < len;) {
        at = next_piece(&c, at);
    }
    send_raw(&c, len);
    flow->raw_left -= len < flow->raw_left ? len : flow->raw_left;
    if (!flow->coded_any && p->counts->coded_frames > coded) {
        flow->coded_any = true;
        flow->first_coded = s->seq;
    }
}

static void from_host(passage *p) {
    fednic_nic *nic = p->nic;
    fednic_segment *s = &p->segment;
    if ((s->flags & TCP_SYN) != 0) {
        fednic_frame out;
        bool known_sum = !needs_csum(p->frame) || csum_is_of_tcp(p->frame, s);
        if (known_sum && !many_in_one(p->frame) &&
            fednic_agree_host(nic->flows, p->frame->data, s, nic->options.mtu, p->now_ms)) {
            fednic_option_add(p->frame, s, nic->made, &out);
            p->emit(p->user, &out);
            return;
        }
        forward(p);
        return;
    }
    bool marked = (s->tos & FEDNIC_TOS) == FEDNIC_MARKED;
    if (!marked && (s->flags & (TCP_FIN | TCP_RST)) == 0) {
        forward(p);
        return;
    }
    fednic_flow_key key = fednic_flow_key_of(p->frame->data, s, FEDNIC_HOST);
    fednic_flow *flow = fednic_flows_find(nic->flows, &key);
    if (flow == NULL) {
        forward(p);
        return;
    }
    fednic_flows_use(nic->flows, flow, true, p->now_ms);
    flow->sent_plain += s->payload_len;
    if (marked && flow->agreed && flow->own_known && s->payload_len > 0 && may_be_coded(p)) {
        compress(p, flow);
    } else {
        flow->sent_coded += s->payload_len;
        forward(p);
    }
    if ((s->flags & (TCP_FIN | TCP_RST)) != 0) {
        fednic_flows_age(nic->flows, flow);
    }
}

/* Return the pseudo-header's protocol number for which the checksum is right: PROTOCOL_TWISTED,
 * PROTOCOL_TCP, or 0 for neither. */
static uint16_t protocol_of(const passage *p) {
    const fednic_segment *s = &p->segment;
    const fednic_frame *frame = p->frame;
    if (needs_csum(frame)) {
        if (!csum_is_of_tcp(frame, s)) {
            return 0;
        }
        return pseudo_fits(frame, s, PROTOCOL_TWISTED) ? PROTOCOL_TWISTED
               : pseudo_fits(frame, s, PROTOCOL_TCP)   ? PROTOCOL_TCP
                                                       : 0;
    }
    const size_t tcp_len = fednic_tcp_header(s) + s->payload_len;
    uint16_t sum = fednic_sum(frame->data + s->tcp, tcp_len);
    sum = fednic_sum_add(sum, fednic_pseudo_sum(frame->data, s, 0, tcp_len));
    return fednic_sum_add(sum, PROTOCOL_TWISTED) == UINT16_MAX ? PROTOCOL_TWISTED
           : fednic_sum_add(sum, PROTOCOL_TCP) == UINT16_MAX   ? PROTOCOL_TCP
                                                               : 0;
}

/* Restore a compressed segment and pass it on uncompressed. Returns its payload's size; 0: it
 * cannot be restored, and was not passed on. */
static size_t restore(const passage *p) {
    const fednic_segment *s = &p->segment;
    uint8_t *bytes = p->nic->made;
    if ((s->flags & (TCP_SYN | TCP_RST | TCP_URG)) != 0 || many_in_one(p->frame)) {
        return 0;
    }
    size_t len = fednic_form_read(p->frame->data + s->payload, s->payload_len, bytes + s->payload);
    const size_t header = fednic_tcp_header(s), tcp_len = header + len;
    if (len == 0 || !fednic_ip_holds(s, tcp_len)) {
        return 0;
    }
    memcpy(bytes, p->frame->data, s->payload);
    /* if the DSCP is not the compressed mark, a router has changed it: leave it as it is */
    bool known = (s->tos & FEDNIC_TOS) == FEDNIC_COMPRESSED;
    fednic_ip_change(bytes, s, tcp_len, known ? FEDNIC_MARKED | (s->tos & 3) : s->tos, 0);
    fednic_put16(bytes + s->tcp + TCP_CHECKSUM, fednic_pseudo_sum(bytes, s, PROTOCOL_TCP, tcp_len));
    fednic_frame out = {bytes, s->payload + len, {0}};
    fednic_offload *o = &out.offload;
    /* the checksum was verified, so nothing need compute it again */
    *o = (fednic_offload){.flags = OFFLOAD_NEEDS_CSUM,
                          .hdr_len = (uint16_t)s->payload,
                          .csum_start = (uint16_t)s->tcp,
                          .csum_offset = TCP_CHECKSUM};
    const size_t unit = p->nic->options.mtu - (s->tcp - s->ip) - header;
    if (len > unit) {
        unsigned type = s->family == 4 ? OFFLOAD_TCPV4 : OFFLOAD_TCPV6;
        o->gso_type = (uint8_t)((s->flags & TCP_CWR) != 0 ? type | OFFLOAD_ECN : type);
        o->gso_size = (uint16_t)unit;
    }
    p->counts->coded_frames++;
    p->counts->plain_bytes += len;
    p->counts->coded_bytes += s->payload_len;
    p->counts->split_floats += (len - p->frame->data[s->payload + 2]) % 4 > 0;
    p->emit(p->user, &out);
    return len;
}

/* Forward a compressed segment that the NIC cannot restore. Linux would not verify an incomplete
 * checksum, so it is completed here, and the host drops the segment as wrong. */
static void forward_unread(const passage *p) {
    const fednic_segment *s = &p->segment;
    const fednic_frame *frame = p->frame;
    if (!needs_csum(frame) || many_in_one(frame)) {
        forward(p);
        return;
    }
    fednic_frame out = {p->nic->made, frame->len, {0}};
    memcpy(p->nic->made, frame->data, frame->len);
    uint16_t sum = fednic_sum(frame->data + s->tcp, fednic_tcp_header(s) + s->payload_len);
    fednic_put16(p->nic->made + s->tcp + TCP_CHECKSUM, (uint16_t)~sum);
    p->emit(p->user, &out);
}

/* The checksum tells whether a segment is compressed. So the NIC need not know the connection, and
 * routers may have changed the DSCP. Frames that were found right for TCP already are skipped,
 * unless they have the compressed mark. */
static bool is_compressed(const passage *p) {
    const fednic_segment *s = &p->segment;
    const uint8_t flags = p->frame->offload.flags;
    bool dscp = (s->tos & FEDNIC_TOS) == FEDNIC_COMPRESSED;
    bool is_right = many_in_one(p->frame) || (flags & OFFLOAD_DATA_VALID) != 0;
    if (s->payload_len == 0 || (is_right && !dscp && !needs_csum(p->frame))) {
        return false;
    }
    uint16_t protocol = protocol_of(p);
    p->counts->bad_frames += dscp && protocol == 0 && !many_in_one(p->frame);
    return protocol == PROTOCOL_TWISTED;
}

static void from_wire(passage *p) {
    fednic_nic *nic = p->nic;
    const fednic_segment *s = &p->segment;
    fednic_flow_key key = fednic_flow_key_of(p->frame->data, s, FEDNIC_WIRE);
    fednic_flow *flow = fednic_flows_find(nic->flows, &key);
    size_t len = 0;
    if (!is_compressed(p)) {
        forward(p);
    } else if ((len = restore(p)) == 0) {
        p->counts->bad_frames++;
        forward_unread(p);
    }
    if ((s->flags & TCP_SYN) != 0) {
        fednic_agree_wire(nic->flows, p->frame->data, s, p->now_ms);
        return;
    }
    if (flow == NULL) {
        return;
    }
    fednic_flows_use(nic->flows, flow, false, p->now_ms);
    flow->received_plain += len > 0 ? len : s->payload_len;
    flow->received_coded += s->payload_len;
    flow->proved |=
        flow->coded_any && (s->flags & TCP_ACK) != 0 && (int32_t)(s->ack - flow->first_coded) > 0;
    if ((s->flags & (TCP_FIN | TCP_RST)) != 0) {
        fednic_flows_age(nic->flows, flow);
    }
}

static fed_status check_options(const fednic_nic_options *o, fed_error *err) {
    if (o->e < E_MIN || o->e > E_MAX) {
        return fed_fail(err, FED_EINVAL,
                        "The NIC's error bound 2^-%d is out of range: e must be %d to %d", o->e,
                        E_MIN, E_MAX);
    }
    if (o->flows > FLOWS_MAX) {
        return fed_fail(
            err, FED_EINVAL,
            "The NIC can't keep track of %u connections at once: at most %d are possible",
            (unsigned)o->flows, FLOWS_MAX);
    }
    if (o->mtu != 0 && (o->mtu < MTU_MIN || o->mtu > MTU_MAX)) {
        return fed_fail(err, FED_EINVAL, "The NIC's MTU of %u is out of range: it must be %d to %d",
                        (unsigned)o->mtu, MTU_MIN, MTU_MAX);
    }
    return FED_OK;
}

fed_status fednic_nic_new(const fednic_nic_options *options, fednic_nic **nic, fed_error *err) {
    FED_TRY(check_options(options, err));
    fednic_nic *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "Out of memory for a NIC");
    }
    c->options = *options;
    c->options.flows = options->flows != 0 ? options->flows : FLOWS;
    c->options.mtu = options->mtu != 0 ? options->mtu : MTU;
    fed_status status = fednic_flows_new(c->options.flows, &c->flows, err);
    if (status != FED_OK) {
        fednic_nic_free(c);
        return status;
    }
    *nic = c;
    return FED_OK;
}

void fednic_nic_free(fednic_nic *nic) {
    if (nic != NULL) {
        fednic_flows_free(nic->flows);
        free(nic);
    }
}

void fednic_nic_take(fednic_nic *nic, fednic_side from, const fednic_frame *frame, int64_t now_ms,
                     fednic_emit *emit, void *user) {
    passage p = {.nic = nic,
                 .frame = frame,
                 .emit = emit,
                 .user = user,
                 .now_ms = now_ms,
                 .from = from,
                 .counts = &nic->counts[from]};
    p.counts->frames++;
    p.counts->bytes += frame->len;
    if (frame->len > FEDNIC_FRAME || !fednic_segment_find(frame->data, frame->len, &p.segment)) {
        forward(&p);
    } else if (from == FEDNIC_HOST) {
        from_host(&p);
    } else {
        from_wire(&p);
    }
}

void fednic_nic_count(const fednic_nic *nic, fednic_side from, fednic_counts *counts) {
    *counts = nic->counts[from];
}

void fednic_nic_flows(const fednic_nic *nic,
                      void (*use)(void *user, const fednic_flow_report *flow), void *user) {
    fednic_flows_each(nic->flows, use, user);
}
