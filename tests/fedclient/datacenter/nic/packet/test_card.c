/* The card's frames, one at a time: what it changes, what it leaves, what it counts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "card_frames.h"
#include "fed/rng.h"
#include "fed_test.h"
#include "fedcodec/bursts.h"

enum { E = 10, MARKED = 0x28, COMPRESSED = 0x2c, TWIST = 253, N = 16000 };
enum { ISN = 1000, PEER_ISN = 77 };

/* Two hosts with a card each, and what the last frame became. */
typedef struct world {
    fednic_card *near, *far;
    card_heap *wire, *host; /* what the near card sends, what the far one makes of it */
    uint8_t memory[FRAME_ROOM];
    float x[N], rounded[N];
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    fednic_card_options options = {.e = E, .flows = 8};
    assert_non_null(w);
    assert_fed_ok(fednic_card_new(&options, &w->near, NULL));
    assert_fed_ok(fednic_card_new(&options, &w->far, NULL));
    w->wire = card_heap_new();
    w->host = card_heap_new();
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
    fednic_card_free(w->near);
    fednic_card_free(w->far);
    card_heap_free(w->wire);
    card_heap_free(w->host);
    free(w);
    return 0;
}

/* A frame of the near host passes both cards; or with `backwards` one of the far host. */
static void pass(world *w, const card_shape *shape, const void *payload, size_t len) {
    fednic_frame frame = card_frame(shape, payload, len, w->memory);
    w->wire->count = w->host->count = 0;
    fednic_card_take(shape->backwards ? w->far : w->near, FEDNIC_HOST, &frame, 0, card_heap_keep,
                     w->wire);
    for (size_t i = 0; i < w->wire->count; i++) {
        fednic_card_take(shape->backwards ? w->near : w->far, FEDNIC_WIRE, &w->wire->frame[i], 0,
                         card_heap_keep, w->host);
    }
}

static void assert_same_frame(const fednic_frame *got, const uint8_t *data, size_t len) {
    assert_int_equal(got->len, len);
    assert_memory_equal(got->data, data, len);
}

/* SYN, answer, acknowledgement. */
static void connect_hosts(world *w, card_shape shape) {
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

static void the_segments_of_a_marked_connection_arrive_rounded(void **state) {
    world *w = *state;
    for (unsigned k = 0; k < 16; k++) {
        card_shape shape = {.family = k % 2 == 0 ? 4 : 6,
                            .vlans = (uint8_t)(k / 2 % 2),
                            .partial = k / 4 % 2 == 0,
                            .tos = (uint8_t)(MARKED | k % 4),
                            .ip_words = (uint8_t)(k / 8),
                            .port = (uint16_t)k};
        connect_hosts(w, shape);
        shape.seq = ISN + 1;
        shape.flags = SEG_ACK | SEG_PSH;
        pass(w, &shape, w->x, 1448);
        card_parts parts;
        assert_int_equal(w->wire->count, 1);
        assert_true(card_frame_read(&w->wire->frame[0], TWIST, &parts));
        assert_int_equal(parts.tos, COMPRESSED | k % 4);
        assert_true(parts.payload_len < 1448 / 2);
        assert_int_equal(w->host->count, 1);
        assert_true(card_frame_read(&w->host->frame[0], 6, &parts));
        assert_int_equal(parts.payload_len, 1448);
        assert_int_equal(parts.tos, shape.tos);
        assert_memory_equal(w->host->frame[0].data + parts.payload, w->rounded, 1448);
    }
}

static void a_super_segment_becomes_packets_and_each_is_a_super_segment_again(void **state) {
    world *w = *state;
    card_shape shape = {.family = 4, .partial = true, .tos = MARKED, .gso_size = 1448, .id = 9};
    connect_hosts(w, shape);
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK | SEG_PSH | SEG_FIN | SEG_CWR;
    pass(w, &shape, w->x, 4 * N);
    size_t at = 0;
    assert_true(w->wire->count > 1 && w->wire->count < 4 * N / 1448 / 2);
    for (size_t i = 0; i < w->wire->count; i++) {
        card_parts parts;
        bool last = i + 1 == w->wire->count;
        assert_true(card_frame_read(&w->wire->frame[i], TWIST, &parts));
        assert_true(parts.payload_len <= 1448 && (last || parts.payload_len > 1448 - 36));
        assert_int_equal(parts.seq, ISN + 1 + at);
        assert_int_equal(parts.id, 9 + i);
        assert_int_equal(parts.flags,
                         SEG_ACK | (last ? SEG_PSH | SEG_FIN : 0) | (i == 0 ? SEG_CWR : 0));
        assert_true(card_frame_read(&w->host->frame[i], 6, &parts));
        assert_int_equal(w->host->frame[i].offload.gso_size, 1460);
        assert_memory_equal(w->host->frame[i].data + parts.payload, (uint8_t *)w->rounded + at,
                            parts.payload_len);
        at += parts.payload_len;
    }
    assert_int_equal(at, 4 * N);
}

static void unmarked_frames_are_the_callers_own_memory(void **state) {
    world *w = *state;
    card_shape shape = {.family = 4, .partial = true, .tos = MARKED};
    connect_hosts(w, shape);
    shape.tos = 0x48;
    shape.seq = ISN + 1;
    shape.flags = SEG_ACK;
    pass(w, &shape, w->x, 1448);
    assert_int_equal(w->host->count, 1);
    fednic_frame frame = card_frame(&shape, w->x, 1448, w->memory);
    assert_same_frame(&w->wire->frame[0], frame.data, frame.len);
    assert_same_frame(&w->host->frame[0], frame.data, frame.len);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_segments_of_a_marked_connection_arrive_rounded, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_super_segment_becomes_packets_and_each_is_a_super_segment_again, setup, teardown),
        cmocka_unit_test_setup_teardown(unmarked_frames_are_the_callers_own_memory, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
