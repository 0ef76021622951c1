/* How two NICs agree on a connection: which SYNs get the option, and which connections count. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/agreement.h"
#include "nic_frames.h"

enum { MTU = 1500, MARKED = 0x28, ISN = 1000, PEER_ISN = 77 };

static uint8_t memory[FRAME_ROOM], room[FRAME_ROOM];
static const uint8_t nic_option[] = {253, 4, 0xfe, 0xd1};
static fednic_flows *flows;

static int setup(void **state) {
    (void)state;
    assert_fed_ok(fednic_flows_new(8, &flows, NULL));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fednic_flows_free(flows);
    return 0;
}

static fednic_segment segment_of(const nic_shape *shape, size_t len) {
    static const uint8_t data[2000];
    fednic_frame frame = nic_frame(shape, data, len, memory);
    fednic_segment s;
    assert_true(fednic_segment_find(frame.data, frame.len, &s));
    return s;
}

static bool host_sends(nic_shape shape, size_t len) {
    fednic_segment s = segment_of(&shape, len);
    return fednic_agree_host(flows, memory, &s, MTU, 0);
}

static void wire_brings(nic_shape shape, bool option) {
    shape.backwards = true;
    if (option) {
        shape.options = nic_option;
        shape.option_words = 1;
    }
    fednic_segment s = segment_of(&shape, 0);
    fednic_agree_wire(flows, memory, &s, 0);
}

static const fednic_flow *flow_now(void) {
    fednic_segment s = segment_of(&(nic_shape){.family = 4}, 0);
    fednic_flow_key key = fednic_flow_key_of(memory, &s, FEDNIC_HOST);
    return fednic_flows_find(flows, &key);
}

static bool agreed(void) {
    const fednic_flow *flow = flow_now();
    return flow != NULL && flow->agreed && flow->own_known && flow->own_isn == ISN;
}

static const nic_shape syn = {.family = 4, .tos = MARKED, .flags = SEG_SYN, .seq = ISN};
static const nic_shape syn_ack = {
    .family = 4, .flags = SEG_SYN | SEG_ACK, .seq = ISN, .ack = PEER_ISN + 1};
static const nic_shape peer_syn = {.family = 4, .tos = MARKED, .flags = SEG_SYN, .seq = PEER_ISN};
static const nic_shape peer_syn_ack = {
    .family = 4, .flags = SEG_SYN | SEG_ACK, .seq = PEER_ISN, .ack = ISN + 1};

FED_TEST(the_host_opens) {
    assert_true(host_sends(syn, 0));
    assert_false(agreed());
    wire_brings(peer_syn_ack, true);
    assert_true(agreed());
}

FED_TEST(the_peer_opens) {
    wire_brings(peer_syn, true);
    assert_false(agreed());
    assert_true(host_sends(syn_ack, 0));
    assert_true(agreed());
    assert_true(host_sends(syn_ack, 0));
}

FED_TEST(both_open) {
    assert_true(host_sends(syn, 0));
    wire_brings(peer_syn, true);
    assert_false(agreed());
    assert_true(host_sends(syn_ack, 0));
    assert_true(agreed());
}

FED_TEST(without_the_option_nothing_is_agreed) {
    wire_brings(peer_syn, false);
    assert_false(host_sends(syn_ack, 0));
    assert_null(flow_now());
    assert_true(host_sends(syn, 0));
    wire_brings(peer_syn_ack, false);
    assert_false(agreed());
    nic_shape other = peer_syn_ack; /* an answer to another SYN */
    other.ack = ISN;
    wire_brings(other, true);
    assert_false(agreed());
}

FED_TEST(a_syn_that_may_not_be_changed_stays) {
    static const uint8_t md5[] = {19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
    static const uint8_t nops[40] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, broken[] = {8, 1, 1, 1};
    nic_shape shape = syn;
    shape.tos = 0;
    assert_false(host_sends(shape, 0));
    shape.tos = MARKED;
    shape.options = md5;
    shape.option_words = 5;
    assert_false(host_sends(shape, 0));
    shape.options = nic_option; /* the option is already there, from a NIC nearer to the host */
    shape.option_words = 1;
    assert_false(host_sends(shape, 0));
    shape.options = broken;
    assert_false(host_sends(shape, 0));
    assert_null(flow_now());
    shape.options = nops;
    shape.option_words = 10; /* there is no room for the option */
    assert_false(host_sends(shape, 0));
    shape.option_words = 0;
    assert_false(host_sends(shape, MTU - 43));
    assert_true(host_sends(shape, MTU - 44));
}

FED_TEST(the_fourth_syn_goes_without) {
    for (int k = 0; k < 5; k++) {
        assert_int_equal(host_sends(syn, 0), k < 3);
    }
    wire_brings(peer_syn_ack, true); /* an answer to one of the first SYNs */
    assert_true(agreed());
}

FED_TEST(the_same_ports_may_have_a_new_connection) {
    nic_shape shape = syn;
    shape.seq = ISN - 500;
    assert_true(host_sends(shape, 0));
    nic_shape other = peer_syn_ack;
    other.ack = shape.seq + 1;
    wire_brings(other, true);
    assert_true(flow_now()->agreed);
    assert_true(host_sends(syn, 0));
    assert_false(flow_now()->agreed);
    wire_brings(peer_syn_ack, true);
    assert_true(agreed());
    shape.seq = ISN + 500;
    shape.tos = 0;
    assert_false(host_sends(shape, 0));
    assert_null(flow_now());
    wire_brings(peer_syn, true);
    assert_true(host_sends(syn_ack, 0));
    shape = syn_ack; /* an answer to a SYN without the option */
    shape.seq = ISN + 900;
    shape.ack = PEER_ISN + 100000;
    assert_false(host_sends(shape, 0));
    assert_null(flow_now());
}

FED_TEST(a_spoofed_syn_changes_nothing) {
    assert_true(host_sends(syn, 0));
    wire_brings(peer_syn_ack, true);
    nic_shape spoofed = peer_syn;
    spoofed.seq = 5;
    wire_brings(spoofed, true);
    assert_true(agreed());
    wire_brings(spoofed, false);
    assert_true(agreed());
}

FED_TEST(the_option_comes_first_and_all_sums_follow) {
    static const uint8_t own[] = {2, 4, 5, 180, 0, 0, 0, 0};
    for (int k = 0; k < 8; k++) {
        nic_shape shape = syn;
        shape.family = k % 2 == 0 ? 4 : 6;
        shape.partial = k / 2 % 2 == 0;
        shape.padding = (uint16_t)(k / 4 * 6);
        shape.options = own;
        shape.option_words = 2;
        fednic_frame frame = nic_frame(&shape, "data", 4, memory), out;
        fednic_segment s;
        nic_parts p;
        assert_true(fednic_segment_find(frame.data, frame.len, &s));
        fednic_option_add(&frame, &s, room, &out);
        assert_true(nic_frame_read(&out, 6, &p));
        assert_int_equal(out.len, frame.len - shape.padding + 4);
        assert_memory_equal(room + p.tcp + 20, nic_option, 4);
        assert_memory_equal(room + p.tcp + 24, own, sizeof own);
        assert_int_equal(p.payload_len, 4);
        assert_memory_equal(room + p.payload, "data", 4);
    }
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
