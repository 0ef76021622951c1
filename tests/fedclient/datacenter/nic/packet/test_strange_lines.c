/* The NIC behind virtual network devices, which leave checksums to the host; and TCP Fast Open. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedcodec/bursts.h"
#include "nic_frames.h"

enum { E = 10, MARKED = 0x28, TWIST = 253, N = 360, ISN = 1000, PEER_ISN = 77 };

typedef struct world {
    fednic_nic *near, *far;
    nic_heap *wire, *host;
    uint8_t memory[FRAME_ROOM];
    float x[N];
} world;

static fednic_nic *new_nic(void) {
    const fednic_nic_options options = {.e = E, .flows = 8};
    fednic_nic *nic = NULL;
    assert_fed_ok(fednic_nic_new(&options, &nic, NULL));
    return nic;
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->near = new_nic();
    w->far = new_nic();
    w->wire = nic_heap_new();
    w->host = nic_heap_new();
    for (size_t k = 0; k < N; k++) {
        w->x[k] = (float)k * 1e-4f;
    }
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

static void send_frame(world *w, const nic_shape *shape, size_t len) {
    fednic_frame frame = nic_frame(shape, w->x, len, w->memory);
    w->wire->count = 0;
    fednic_nic_take(shape->backwards ? w->far : w->near, FEDNIC_HOST, &frame, 0, nic_heap_keep,
                    w->wire);
    assert_int_equal(w->wire->count, 1);
}

static void receive(world *w, const nic_shape *shape) {
    w->host->count = 0;
    fednic_nic_take(shape->backwards ? w->near : w->far, FEDNIC_WIRE, &w->wire->frame[0], 0,
                    nic_heap_keep, w->host);
    assert_int_equal(w->host->count, 1);
}

/* Exchange a SYN with `data` bytes and its answer; *shape becomes the first host's next segment. */
static void connect_hosts(world *w, size_t data, nic_shape *shape) {
    *shape = (nic_shape){.family = 4, .partial = true, .tos = MARKED, .flags = SEG_SYN};
    shape->seq = ISN;
    send_frame(w, shape, data);
    receive(w, shape);
    nic_shape answer = *shape;
    answer.backwards = true;
    answer.flags = SEG_SYN | SEG_ACK;
    answer.seq = PEER_ISN;
    answer.ack = ISN + 1 + (uint32_t)data;
    send_frame(w, &answer, 0);
    receive(w, &answer);
    shape->flags = SEG_ACK;
    shape->seq = ISN + 1 + (uint32_t)data;
    shape->ack = PEER_ISN + 1;
}

FED_TEST_WITH(the_answer_to_a_syn_with_data_agrees_too, world *w) {
    nic_shape shape;
    nic_parts parts;
    connect_hosts(w, 600, &shape);
    send_frame(w, &shape, 4 * N);
    assert_true(nic_frame_read(&w->wire->frame[0], TWIST, &parts));
    shape.backwards = true;
    shape.seq = PEER_ISN + 1;
    send_frame(w, &shape, 4 * N);
    assert_true(nic_frame_read(&w->wire->frame[0], TWIST, &parts));
}

/* Return a compressed frame whose checksum is not complete. This NIC never sends one. */
static fednic_frame *compressed(world *w, nic_shape *shape) {
    nic_parts parts;
    connect_hosts(w, 0, shape);
    send_frame(w, shape, 4 * N);
    assert_true(nic_frame_read(&w->wire->frame[0], TWIST, &parts));
    assert_int_equal(w->wire->frame[0].offload.flags, 0);
    nic_shape twisted = *shape;
    twisted.tos = parts.tos;
    twisted.protocol = TWIST;
    w->wire->frame[0] =
        nic_frame(&twisted, w->wire->frame[0].data + parts.payload, parts.payload_len, w->memory);
    return &w->wire->frame[0];
}

static void bleach(fednic_frame *frame, const nic_parts *parts) {
    uint8_t *ip = (uint8_t *)frame->data + parts->ip;
    uint32_t sum = (uint32_t)(ip[10] << 8 | ip[11]) + ip[1]; /* incremental update of RFC 1624 */
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
    ip[1] = 0;
}

FED_TEST_WITH(a_new_nic_knows_a_bleached_segment_by_its_partial_checksum, world *w) {
    nic_shape shape;
    nic_parts parts;
    float rounded[N];
    fedcodec_bursts_round(E, w->x, rounded, N);
    fednic_frame *frame = compressed(w, &shape);
    assert_true(nic_frame_read(frame, TWIST, &parts));
    bleach(frame, &parts);
    assert_true(nic_frame_read(frame, TWIST, &parts));
    fednic_nic_free(w->far);
    w->far = new_nic();
    receive(w, &shape);
    assert_true(nic_frame_read(&w->host->frame[0], 6, &parts));
    assert_int_equal(parts.payload_len, 4 * N);
    assert_int_equal(parts.tos, 0);
    assert_memory_equal(w->host->frame[0].data + parts.payload, rounded, 4 * N);
}

FED_TEST_WITH(the_host_can_refuse_what_the_nic_cannot_read, world *w) {
    nic_shape shape;
    nic_parts parts;
    fednic_frame *frame = compressed(w, &shape);
    assert_true(nic_frame_read(frame, TWIST, &parts));
    ((uint8_t *)frame->data)[parts.payload + 2] = 7;
    receive(w, &shape);
    const fednic_frame *got = &w->host->frame[0];
    assert_int_equal(got->offload.flags, 0);
    assert_int_equal(got->len, frame->len);
    assert_true(nic_frame_read(got, TWIST, &parts));
    assert_memory_equal(got->data + parts.payload, frame->data + parts.payload, parts.payload_len);
    fednic_counts counts;
    fednic_nic_count(w->far, FEDNIC_WIRE, &counts);
    assert_int_equal(counts.bad_frames, 1);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
