/* Single frames through the NIC: what it changes, what it leaves alone, and what it counts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"
#include "fed_cases.h"
#include "fedcodec/bursts.h"
#include "nic_frames.h"

enum { E = 10, MARKED = 0x28, COMPRESSED = 0x2c, TWIST = 253, N = 16000 };
enum { ISN = 1000, PEER_ISN = 77 };

typedef struct world {
    fednic_nic *near, *far;
    nic_heap *wire, *host;
    uint8_t memory[FRAME_ROOM];
    float x[N], rounded[N];
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    fednic_nic_options options = {.e = E, .flows = 8};
    assert_non_null(w);
    assert_fed_ok(fednic_nic_new(&options, &w->near, NULL));
    assert_fed_ok(fednic_nic_new(&options, &w->far, NULL));
    w->wire = nic_heap_new();
    w->host = nic_heap_new();
    fed_rng rng;
    fed_rng_init(&rng, 22, 0, 0);
    for (size_t i = 0; i < N; i++) {
        w->x[i] = (fed_rng_float(&rng) - 0.5f) * 0.02f;
    }
    fedcodec_bursts_round(E, w->x, w->rounded, N);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fednic_nic_free(w->near);
    fednic_nic_free(w->far);
    nic_heap_free(w->wire);
    nic_heap_free(w->host);
    free(w);
    return 0;
}

/* Send a frame through both NICs, from the near host, or the far one if shape.backwards. */
static void pass(world *w, const nic_shape *shape, const void *payload, size_t len) {
    fednic_frame frame = nic_frame(shape, payload, len, w->memory);
    w->wire->count = w->host->count = 0;
    fednic_nic_take(shape->backwards ? w->far : w->near, FEDNIC_HOST, &frame, 0, nic_heap_keep,
                    w->wire);
    for (size_t i = 0; i < w->wire->count; i++) {
        fednic_nic_take(shape->backwards ? w->near : w->far, FEDNIC_WIRE, &w->wire->frame[i], 0,
                        nic_heap_keep, w->host);
    }
}

static void assert_same_frame(const fednic_frame *got, const uint8_t *data, size_t len) {
    assert_int_equal(got->len, len);
    assert_memory_equal(got->data, data, len);
}

static void connect_hosts(world *w, nic_shape shape) {
    shape.gso_size = 0;
    shape.flags = SEG_SYN;
    shape.seq = ISN;
    pass(w, &shape, NULL, 0);
    shape.backwards = true;
    shape.flags = SEG_SYN | SEG_ACK;
    shape.seq = PEER_ISN;
    shape.ack = ISN + 1;
    pass(w, &shape, NULL, 0);
    shape.backwards = false;
    shape.flags = SEG_ACK;
    shape.seq = ISN + 1;
    shape.ack = PEER_ISN + 1;
    pass(w, &shape, NULL, 0);
}

FED_TEST_WITH(the_segments_of_a_marked_connection_arrive_rounded, world *w) {
    for (unsigned k = 0; k < 16; k++) {
        nic_shape shape = {.family = k % 2 == 0 ? 4 : 6,
                           .vlans = (uint8_t)(k / 2 % 2),
                           .partial = k / 4 % 2 == 0,
                           .tos = (uint8_t)(MARKED | k % 4),
                           .ip_words = (uint8_t)(k / 8),
                           .port = (uint16_t)k};
        connect_hosts(w, shape);
        shape.seq = ISN + 1;
        shape.flags = SEG_ACK | SEG_PSH;
        pass(w, &shape, w->x, 1448);
        nic_parts parts;
        assert_int_equal(w->wire->count, 1);
        assert_true(nic_frame_read(&w->wire->frame[0], TWIST, &parts));
        assert_int_equal(parts.tos, COMPRESSED | k % 4);
        assert_true(parts.payload_len < 1448 / 2);
        assert_int_equal(w->host->count, 1);
        assert_true(nic_frame_read(&w->host->frame[0], 6, &parts));
        assert_int_equal(parts.payload_len, 1448);
        assert_int_equal(parts.tos, shape.tos);
        assert_memory_equal(w->host->frame[0].data + parts.payload, w->rounded, 1448);
    }
}

FED_TEST_WITH(a_super_segment_becomes_packets_and_each_is_a_super_segment_again, world *w) {
    nic_shape shape = {.family = 4, .partial = true, .tos = MARKED, .gso_size = 1448, .id = 9};
    connect_hosts(w, shape);
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK | SEG_PSH | SEG_FIN | SEG_CWR;
    pass(w, &shape, w->x, 4 * N);
    size_t at = 0;
    assert_true(w->wire->count > 1 && w->wire->count < 4 * N / 1448 / 2);
    for (size_t i = 0; i < w->wire->count; i++) {
        nic_parts parts;
        bool last = i + 1 == w->wire->count;
        assert_true(nic_frame_read(&w->wire->frame[i], TWIST, &parts));
        assert_true(parts.payload_len <= 1448 && (last || parts.payload_len > 1448 - 36));
        assert_int_equal(parts.seq, ISN + 1 + at);
        assert_int_equal(parts.id, 9 + i);
        assert_int_equal(parts.flags,
                         SEG_ACK | (last ? SEG_PSH | SEG_FIN : 0) | (i == 0 ? SEG_CWR : 0));
        assert_true(nic_frame_read(&w->host->frame[i], 6, &parts));
        assert_int_equal(w->host->frame[i].offload.gso_size, 1460);
        assert_memory_equal(w->host->frame[i].data + parts.payload, (uint8_t *)w->rounded + at,
                            parts.payload_len);
        at += parts.payload_len;
    }
    assert_int_equal(at, 4 * N);
}

FED_TEST_WITH(unmarked_frames_are_the_callers_own_memory, world *w) {
    nic_shape shape = {.family = 4, .partial = true, .tos = MARKED};
    connect_hosts(w, shape);
    shape.tos = 0x48;
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK;
    pass(w, &shape, w->x, 1448);
    assert_int_equal(w->host->count, 1);
    fednic_frame frame = nic_frame(&shape, w->x, 1448, w->memory);
    assert_same_frame(&w->wire->frame[0], frame.data, frame.len);
    assert_same_frame(&w->host->frame[0], frame.data, frame.len);
}

static void assert_untouched(world *w, const nic_shape *shape, const void *payload, size_t len) {
    pass(w, shape, payload, len);
    assert_int_equal(w->wire->count, 1);
    assert_int_equal(w->host->count, 1);
    fednic_frame frame = nic_frame(shape, payload, len, w->memory);
    assert_same_frame(&w->wire->frame[0], frame.data, frame.len);
    assert_same_frame(&w->host->frame[0], frame.data, frame.len);
}

FED_TEST_WITH(what_cannot_be_coded_stays_as_it_is, world *w) {
    nic_shape shape = {.family = 4, .tos = MARKED, .seq = ISN + 1, .flags = SEG_ACK};
    assert_untouched(w, &shape, w->x, 1448); /* a connection that no NIC knows */
    connect_hosts(w, shape);
    assert_untouched(w, &shape, NULL, 0);
    shape.may_cut = true;
    assert_untouched(w, &shape, w->x, 1448);
    shape.may_cut = false;
    shape.flags = SEG_ACK | SEG_URG;
    assert_untouched(w, &shape, w->x, 1448);
    shape.flags = SEG_ACK | SEG_RST;
    assert_untouched(w, &shape, w->x, 1448);
    shape.flags = SEG_ACK;
    shape.tos = COMPRESSED; /* a compressed frame of an unknown connection */
    assert_untouched(w, &shape, w->x, 1448);
    fednic_counts counts;
    fednic_nic_count(w->far, FEDNIC_WIRE, &counts);
    assert_int_equal(counts.bad_frames + counts.coded_frames, 0);
}

FED_TEST_WITH(a_frame_cut_short_anywhere_is_forwarded, world *w) {
    for (int k = 0; k < 4; k++) {
        nic_shape shape = {.family = k % 2 == 0 ? 4 : 6, .tos = MARKED, .vlans = (uint8_t)k};
        shape.vlans = shape.vlans > 2 ? 2 : shape.vlans;
        connect_hosts(w, shape);
        shape.seq = ISN + 1;
        shape.flags = SEG_ACK;
        fednic_frame whole = nic_frame(&shape, w->x, 200, w->memory);
        for (fednic_frame frame = whole; frame.len-- > 0;) {
            w->wire->count = 0;
            fednic_nic_take(w->near, FEDNIC_HOST, &frame, 0, nic_heap_keep, w->wire);
            fednic_nic_take(w->near, FEDNIC_WIRE, &frame, 0, nic_heap_keep, w->wire);
            assert_int_equal(w->wire->count, 2);
            assert_same_frame(&w->wire->frame[0], frame.data, frame.len);
            assert_same_frame(&w->wire->frame[1], frame.data, frame.len);
        }
    }
}

FED_TEST_WITH(a_wrong_checksum_stays_wrong, world *w) {
    nic_shape shape = {.family = 4, .tos = MARKED};
    connect_hosts(w, shape);
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK;
    fednic_frame frame = nic_frame(&shape, w->x, 1448, w->memory);
    w->memory[100] ^= 8;
    w->wire->count = w->host->count = 0;
    fednic_nic_take(w->near, FEDNIC_HOST, &frame, 0, nic_heap_keep, w->wire);
    fednic_nic_take(w->far, FEDNIC_WIRE, &w->wire->frame[0], 0, nic_heap_keep, w->host);
    assert_true(w->wire->frame[0].len < frame.len);
    assert_same_frame(&w->host->frame[0], w->wire->frame[0].data, w->wire->frame[0].len);
    fednic_counts counts;
    fednic_nic_count(w->far, FEDNIC_WIRE, &counts);
    assert_int_equal(counts.bad_frames, 1);
    assert_int_equal(counts.coded_frames, 0);
}

/* Segments of zeros. The second one would be longer than IP's length field allows. */
FED_TEST_WITH(what_would_be_too_long_is_not_restored, world *w) {
    static uint8_t zeros[8192];
    nic_shape shape = {.family = 4, .tos = COMPRESSED, .protocol = TWIST, .flags = SEG_ACK};
    for (size_t len = 65535 - 40; len <= 65535; len += 40) {
        zeros[0] = (uint8_t)(len >> 8);
        zeros[1] = (uint8_t)len;
        size_t bytes = 4 + 2 * ((len / 4 + 7) / 8) + len % 4;
        fednic_frame frame = nic_frame(&shape, zeros, bytes, w->memory);
        w->host->count = 0;
        fednic_nic_take(w->far, FEDNIC_WIRE, &frame, 0, nic_heap_keep, w->host);
        nic_parts parts;
        bool fits = len == 65535 - 40;
        assert_true(nic_frame_read(&w->host->frame[0], fits ? 6 : TWIST, &parts));
        assert_int_equal(parts.payload_len, fits ? len : bytes);
        fednic_counts counts;
        fednic_nic_count(w->far, FEDNIC_WIRE, &counts);
        assert_int_equal(counts.bad_frames, !fits);
    }
}

FED_TEST_WITH(what_would_grow_keeps_its_length_and_is_rounded, world *w) {
    float x[8] = {1.5f, -2.5f, 3.25f, 0.3f, 100, -7, 9, 1e30f}, rounded[8];
    fedcodec_bursts_round(E, x, rounded, 8);
    for (int partial = 0; partial < 2; partial++) {
        nic_shape shape = {.family = 4, .tos = MARKED, .partial = partial == 1};
        connect_hosts(w, shape);
        shape.seq = ISN + 1;
        shape.flags = SEG_ACK;
        pass(w, &shape, x, sizeof x);
        nic_parts parts;
        assert_true(nic_frame_read(&w->host->frame[0], 6, &parts));
        assert_int_equal(parts.payload_len, sizeof x);
        assert_int_equal(parts.tos, MARKED);
        assert_memory_equal(w->host->frame[0].data + parts.payload, rounded, sizeof x);
        shape.seq += sizeof x;
        assert_untouched(w, &shape, rounded, sizeof x);
    }
    fednic_counts counts;
    fednic_nic_count(w->near, FEDNIC_HOST, &counts);
    assert_int_equal(counts.grown_frames, 4);
    assert_int_equal(counts.coded_frames, 0);
}

FED_TEST_WITH(if_segments_come_again_and_again_they_keep_their_length, world *w) {
    nic_shape shape = {.family = 4, .tos = MARKED, .partial = true};
    connect_hosts(w, shape);
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK;
    nic_parts parts;
    for (int k = 0; k < 5; k++) {
        pass(w, &shape, w->x, 1448);
        assert_true(nic_frame_read(&w->wire->frame[0], k < 4 ? TWIST : 6, &parts));
    }
    assert_int_equal(parts.payload_len, 1448);
    assert_memory_equal(w->wire->frame[0].data + parts.payload, w->rounded, 1448);
    size_t sent = 1448;
    for (; sent < 1 << 20; sent += 1448) {
        shape.seq += 1448;
        pass(w, &shape, w->x, 1448);
        assert_true(nic_frame_read(&w->wire->frame[0], 6, &parts));
    }
    for (int k = 0; k < 8; k++) {
        shape.seq += k == 1 ? 1448 : 0;
        pass(w, &shape, w->x, 1448);
        assert_true(nic_frame_read(&w->wire->frame[0], TWIST, &parts));
        nic_shape ack = {.family = 4, .backwards = true, .flags = SEG_ACK, .seq = PEER_ISN + 1};
        ack.ack = shape.seq + (k == 0 ? 1448 : 0);
        pass(w, &ack, NULL, 0);
        pass(w, &shape, w->x, 0);
    }
    pass(w, &shape, w->x, 1448);
    assert_true(nic_frame_read(&w->wire->frame[0], 6, &parts));
}

static void find_report(void *user, const fednic_flow_report *report) {
    assert_int_equal(report->peer_port, 7000);
    if (report->host_port == 40001) {
        *(fednic_flow_report *)user = *report;
    }
}

FED_TEST_WITH(counts_and_reports_add_up, world *w) {
    nic_shape shape = {.family = 4, .tos = MARKED, .port = 1, .partial = true};
    connect_hosts(w, shape);
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK;
    pass(w, &shape, w->x, 1446);
    const size_t coded = w->wire->frame[0].len - 54;
    shape.tos = 0; /* an unmarked frame, which the connection's counts leave out */
    shape.seq += 1446;
    pass(w, &shape, w->x, 100);
    fednic_counts sent, received;
    fednic_nic_count(w->near, FEDNIC_HOST, &sent);
    fednic_nic_count(w->far, FEDNIC_WIRE, &received);
    assert_int_equal(sent.frames, 4);
    assert_int_equal(sent.bytes, 4 * 54 + 1446 + 100);
    assert_int_equal(received.frames, 4);
    assert_int_equal(received.bytes, 4 * 54 + 4 + coded + 100); /* the 4 bytes are the TCP option */
    const fednic_counts *both[] = {&sent, &received};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(both[k]->coded_frames, 1);
        assert_int_equal(both[k]->plain_bytes, 1446);
        assert_int_equal(both[k]->coded_bytes, coded);
        assert_int_equal(both[k]->split_floats, 1);
        assert_int_equal(both[k]->bad_frames + both[k]->grown_frames, 0);
    }
    fednic_flow_report report = {0};
    fednic_nic_flows(w->near, find_report, &report);
    assert_true(report.family == 4 && report.agreed);
    assert_memory_equal(report.host, ((uint8_t[]){10, 0, 0, 1}), 4);
    assert_memory_equal(report.peer, ((uint8_t[]){10, 0, 0, 2}), 4);
    assert_int_equal(report.sent_plain, 1446);
    assert_int_equal(report.sent_coded, coded);
}

FED_TEST_WITH(a_connection_that_was_driven_out_stays_as_it_is, world *w) {
    nic_shape shape = {.family = 4, .tos = MARKED};
    for (uint16_t port = 0; port < 9; port++) { /* one more connection than there is room for */
        shape.port = port;
        connect_hosts(w, shape);
    }
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK;
    shape.port = 0;
    assert_untouched(w, &shape, w->x, 1448);
    shape.port = 8;
    pass(w, &shape, w->x, 1448);
    assert_true(w->wire->frame[0].len < 1448);
}

FED_TEST_WITH(a_connection_that_ended_goes_first, world *w) {
    nic_shape shape = {.family = 4, .tos = MARKED, .seq = ISN + 1, .flags = SEG_ACK};
    for (uint16_t port = 0; port < 8; port++) {
        shape.port = port;
        connect_hosts(w, shape);
    }
    for (uint16_t port = 5; port <= 6; port++) { /* either end may send the FIN */
        nic_shape end = {.family = 4, .port = port, .flags = SEG_ACK | SEG_FIN};
        end.backwards = port == 6;
        pass(w, &end, NULL, 0);
        nic_shape next = shape;
        next.port = (uint16_t)(port + 10);
        connect_hosts(w, next);
        shape.port = port;
        assert_untouched(w, &shape, w->x, 1448);
    }
    shape.port = 0;
    pass(w, &shape, w->x, 1448);
    assert_true(w->wire->frame[0].len < 1448);
}

FED_TEST(options_out_of_range_are_refused) {
    const fednic_nic_options wrong[] = {{.e = 0},
                                        {.e = 16},
                                        {.e = 10, .mtu = 100},
                                        {.e = 10, .mtu = 65536},
                                        {.e = 1, .flows = -1u}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fednic_nic *nic = NULL;
        fed_error err = {0};
        assert_fed_status(fednic_nic_new(&wrong[k], &nic, &err), FED_EINVAL);
        assert_non_null(strstr(err.text, "The NIC"));
    }
    fednic_nic_free(NULL);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
