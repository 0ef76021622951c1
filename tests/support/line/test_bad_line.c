/* Tests that a bad line causes the faults that its rates demand, and no others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bad_line.h"

#include "fed_test.h"
#include "ip_tos.h"

enum { MOST = 8192, HEAD4 = 14 + 20 + 32, HEAD6 = 14 + 40 + 20 };

typedef struct outcome {
    bad_frame frame[MOST];
    size_t count;
    uint8_t stream[1 << 17];
    size_t bytes;
    size_t not_whole;
    size_t marked, ce;
} outcome;

typedef struct world {
    bad_line line;
    bad_rates rates;
    outcome out;
    uint8_t room[BAD_FRAME];
} world;

static uint32_t get32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put16(uint8_t *p, size_t v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void collect(void *user, int from, const bad_frame *frame) {
    outcome *out = user;
    (void)from;
    assert_true(out->count < MOST);
    bad_frame *copy = &out->frame[out->count++];
    *copy = *frame;
    copy->data = malloc(frame->len + 1);
    assert_non_null(copy->data);
    memcpy(copy->data, frame->data, frame->len);
    bad_parts p = bad_frame_parts(copy);
    if (!p.tcp || !bad_frame_whole(copy, &p)) {
        out->not_whole++;
        return;
    }
    size_t at = get32(copy->data + p.transport + 4);
    assert_true(at + p.end - p.payload <= sizeof out->stream);
    memcpy(out->stream + at, copy->data + p.payload, p.end - p.payload);
    out->bytes += p.end - p.payload;
    const uint8_t *ip = copy->data + p.ip;
    const uint8_t tos = ip_tos(ip);
    out->marked += (tos & 0xfc) == 0x28;
    out->ce += (tos & 3) == 3;
}

static int set_up(void **state) {
    fed_error err = {0};
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_fed_ok_err(bad_line_open(&w->line, &w->rates, 7, collect, &w->out, &err));
    atomic_store(&w->rates.least, 1);
    atomic_store(&w->rates.most, 500);
    atomic_store(&w->rates.hold_frames, 4);
    atomic_store(&w->rates.hold_ms, 20);
    atomic_store(&w->rates.delay_ms, 10);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    for (size_t k = 0; k < w->out.count; k++) {
        free(w->out.frame[k].data);
    }
    bad_line_close(&w->line);
    free(w);
    return 0;
}

static uint8_t byte_of(size_t at) {
    return (uint8_t)(at * 31 + (at >> 8));
}

/* Make a segment as Linux gives it to a network card, which must complete the checksum. */
static bad_frame segment(world *w, bool six, uint32_t seq, size_t len, uint16_t gso_size) {
    size_t head = six ? HEAD6 : HEAD4;
    bad_frame f = {.data = w->room, .len = head + len};
    memset(f.data, 0, head);
    uint8_t *ip = f.data + 14;
    uint8_t *tcp = ip + (six ? 40 : 20);
    put16(f.data + 12, six ? 0x86dd : 0x0800);
    if (six) {
        memcpy(ip, (const uint8_t[]){0x62, 0xa0, 0, 0, 0, 0, 6, 64}, 8);
        put16(ip + 4, 20 + len);
        ip[23] = 1;
        ip[39] = 2;
    } else {
        memcpy(ip, (const uint8_t[]){0x45, 0x2a, 0, 0, 0, 9, 0x40, 0, 64, 6}, 10);
        put16(ip + 2, 20 + 32 + len);
        memcpy(ip + 12, (const uint8_t[]){10, 0, 0, 1, 10, 0, 0, 2}, 8);
    }
    memcpy(tcp, (const uint8_t[]){1, 2, 3, 4}, 4);
    put16(tcp + 4, seq >> 16);
    put16(tcp + 6, seq & 0xffff);
    tcp[12] = six ? 0x50 : 0x80;
    tcp[13] = 0x18;
    for (size_t k = 0; k < len; k++) {
        f.data[head + k] = byte_of(seq + k);
    }
    bad_parts p = bad_frame_parts(&f);
    assert_true(p.tcp && p.payload == head && p.end == f.len);
    bad_frame_set_tos(&f, &p, 0xff, 0);
    put16(tcp + 16, bad_frame_pseudo(&f, &p));
    f.offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    f.offload.csum_start = (uint16_t)p.transport;
    f.offload.csum_offset = 16;
    f.offload.hdr_len = (uint16_t)head;
    if (gso_size > 0) {
        f.offload.gso_type = six ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
        f.offload.gso_size = gso_size;
    }
    return f;
}

static void take(world *w, bad_frame f, int64_t now_ms) {
    bad_line_take(&w->line, 0, &f, now_ms);
}

static void assert_stream(const world *w, size_t len) {
    assert_int_equal(w->out.bytes, len);
    for (size_t k = 0; k < len; k++) {
        assert_int_equal(w->out.stream[k], byte_of(k));
    }
}

static void without_rates_frames_stay_as_they_are(void **state) {
    world *w = *state;
    static uint8_t before[BAD_FRAME];
    for (int six = 0; six < 2; six++) {
        bad_frame f = segment(w, six != 0, 0, 40000, 1400);
        memcpy(before, f.data, f.len);
        take(w, f, 0);
        const bad_frame *g = &w->out.frame[six];
        assert_int_equal(g->len, f.len);
        assert_memory_equal(g->data, before, f.len);
        assert_memory_equal(&g->offload, &f.offload, sizeof f.offload);
    }
    assert_int_equal(w->out.count, 2);
}

static void segments_of_many_become_packets(void **state) {
    world *w = *state;
    atomic_store(&w->rates.packets, true);
    take(w, segment(w, false, 0, 14000, 1400), 0);
    take(w, segment(w, true, 14000, 14001, 1400), 0);
    assert_int_equal(w->out.count, 10 + 11);
    assert_int_equal(w->out.not_whole, 0);
    assert_stream(w, 28001);
    for (size_t k = 0; k < w->out.count; k++) {
        const bad_frame *f = &w->out.frame[k];
        bad_parts p = bad_frame_parts(f);
        assert_int_equal(f->offload.flags, 0);
        assert_int_equal(f->offload.gso_type, 0);
        assert_int_equal(f->data[p.transport + 13], k == 9 || k == 20 ? 0x18 : 0x10);
    }
}

static void cut_segments_hold_the_same_stream(void **state) {
    world *w = *state;
    atomic_store(&w->rates.chance[BAD_CUT], BAD_SURE);
    take(w, segment(w, false, 0, 30000, 1448), 0);
    take(w, segment(w, true, 30000, 1, 0), 0);
    take(w, segment(w, true, 30001, 1429, 0), 0);
    assert_true(w->out.count > 60);
    assert_int_equal(w->out.not_whole, 0);
    assert_stream(w, 31430);
    assert_int_equal(w->line.way[0].counts.of[BAD_CUT], 3);
}

/* Like a network card, the line checks a segment before it cuts the segment. */
static void a_wrong_checksum_is_never_mended(void **state) {
    world *w = *state;
    atomic_store(&w->rates.chance[BAD_CUT], BAD_SURE);
    atomic_store(&w->rates.packets, true);
    for (int k = 0; k < 2; k++) {
        bad_frame f = segment(w, k != 0, 0, 900, 0);
        bad_parts p = bad_frame_parts(&f);
        put16(f.data + p.transport + 16, bad_frame_pseudo(&f, &p) + 247u);
        if (k == 1) {
            bad_frame_complete(&f);
        }
        take(w, f, 0);
    }
    assert_int_equal(w->out.count, 2);
    assert_int_equal(w->out.not_whole, 2);
}

static void flips_truncation_and_padding_follow_the_checksum(void **state) {
    world *w = *state;
    atomic_store(&w->rates.chance[BAD_FLIP], BAD_SURE);
    for (uint32_t k = 0; k < 100; k++) {
        take(w, segment(w, k % 2 != 0, 0, 900, 0), 0);
    }
    assert_true(w->out.not_whole > 90);
    atomic_store(&w->rates.chance[BAD_FLIP], 0);
    atomic_store(&w->rates.chance[BAD_TRUNCATE], BAD_SURE);
    w->out.not_whole = 0;
    for (uint32_t k = 0; k < 100; k++) {
        take(w, segment(w, k % 2 != 0, 0, 900, 0), 0);
    }
    assert_int_equal(w->out.not_whole, 100);
    atomic_store(&w->rates.chance[BAD_TRUNCATE], 0);
    atomic_store(&w->rates.chance[BAD_PAD], BAD_SURE);
    w->out.not_whole = 0;
    for (uint32_t k = 0; k < 100; k++) {
        take(w, segment(w, k % 2 != 0, 0, 901, 0), 0);
        assert_true(w->out.frame[w->out.count - 1].len > (k % 2 != 0 ? HEAD6 : HEAD4) + 901);
    }
    assert_int_equal(w->out.not_whole, 0);
}

static void headers_change_and_checksums_hold(void **state) {
    world *w = *state;
    take(w, segment(w, false, 0, 90, 0), 0);
    take(w, segment(w, true, 90, 90, 0), 0);
    assert_int_equal(w->out.marked, 2);
    atomic_store(&w->rates.chance[BAD_CONGEST], BAD_SURE);
    take(w, segment(w, false, 180, 90, 0), 0);
    take(w, segment(w, true, 270, 90, 0), 0);
    assert_int_equal(w->out.ce, 2);
    assert_int_equal(w->out.marked, 4);
    atomic_store(&w->rates.chance[BAD_BLEACH], BAD_SURE);
    take(w, segment(w, false, 360, 90, 0), 0);
    take(w, segment(w, true, 450, 90, 0), 0);
    assert_int_equal(w->out.ce, 4);
    assert_int_equal(w->out.marked, 4);
    assert_int_equal(w->out.not_whole, 0);
    assert_stream(w, 540);
}

static void reordered_frames_come_later_and_all_come(void **state) {
    world *w = *state;
    atomic_store(&w->rates.chance[BAD_REORDER], BAD_SURE / 3);
    for (uint32_t k = 0; k < 200; k++) {
        take(w, segment(w, false, k * 100, 100, 0), 0);
    }
    size_t overtaken = 0;
    for (size_t k = 1; k < w->out.count; k++) {
        overtaken += get32(w->out.frame[k].data + 38) < get32(w->out.frame[k - 1].data + 38);
    }
    assert_true(overtaken > 30);
    assert_in_range(bad_line_poll(&w->line, 1), 0, 1000);
    assert_int_equal(bad_line_poll(&w->line, 20), 1000);
    assert_int_equal(w->line.way[0].held_count, 0);
    assert_int_equal(w->out.count, 200);
    assert_stream(w, 20000);
}

static void delayed_frames_wait_their_time(void **state) {
    world *w = *state;
    atomic_store(&w->rates.chance[BAD_DELAY], BAD_SURE);
    take(w, segment(w, false, 0, 100, 0), 50);
    assert_int_equal(bad_line_poll(&w->line, 55), 5);
    assert_int_equal(w->out.count, 0);
    (void)bad_line_poll(&w->line, 60);
    assert_int_equal(w->out.count, 1);
    for (uint32_t k = 0; k < BAD_HELD + 5; k++) {
        take(w, segment(w, false, 100 + k * 100, 100, 0), 60);
    }
    assert_int_equal(w->out.count, 6);
}

static void losses_and_doubles_are_as_frequent_as_wanted(void **state) {
    world *w = *state;
    atomic_store(&w->rates.chance[BAD_DROP], BAD_SURE / 2);
    atomic_store(&w->rates.quiet, 10);
    for (uint32_t k = 0; k < 10; k++) {
        take(w, segment(w, false, 0, 100, 0), 0);
    }
    assert_int_equal(w->out.count, 10);
    for (uint32_t k = 0; k < 200; k++) {
        take(w, segment(w, false, 0, 100, 0), 0);
    }
    assert_in_range(w->out.count, 10 + 70, 10 + 130);
    atomic_store(&w->rates.chance[BAD_DROP], 0);
    atomic_store(&w->rates.chance[BAD_DUPLICATE], BAD_SURE);
    size_t before = w->out.count;
    take(w, segment(w, false, 0, 100, 0), 0);
    assert_int_equal(w->out.count, before + 2);
    const bad_frame *f = &w->out.frame[before];
    assert_memory_equal(f[0].data, f[1].data, f[0].len);
    char text[1000];
    bad_line_report(&w->line, text, sizeof text);
    assert_non_null(strstr(text, "from a: in 211"));
    assert_non_null(strstr(text, "duplicate 1 "));
}

static void any_bytes_go_through(void **state) {
    world *w = *state;
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    for (int k = 0; k < BAD_KINDS; k++) {
        atomic_store(&w->rates.chance[k], BAD_SURE / 10);
    }
    atomic_store(&w->rates.packets, true);
    atomic_store(&w->rates.least, 100);
    for (uint32_t k = 0; k < 150; k++) {
        bad_frame f = segment(w, k % 2 != 0, 0, 50, 0);
        f.len = fed_rng_below(&rng, 2) != 0 ? f.len : fed_rng_below(&rng, (uint32_t)f.len);
        for (size_t i = 0; i < 8 && f.len > 0; i++) {
            f.data[fed_rng_below(&rng, (uint32_t)f.len)] = (uint8_t)fed_rng_u32(&rng);
        }
        f.offload.gso_type = (uint8_t)(fed_rng_u32(&rng) & 5);
        f.offload.gso_size = (uint16_t)fed_rng_below(&rng, 9);
        f.offload.csum_start = (uint16_t)fed_rng_below(&rng, 200);
        take(w, f, (int64_t)k);
    }
    assert_true(w->out.count > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(without_rates_frames_stay_as_they_are),
        CASE(segments_of_many_become_packets),
        CASE(cut_segments_hold_the_same_stream),
        CASE(a_wrong_checksum_is_never_mended),
        CASE(flips_truncation_and_padding_follow_the_checksum),
        CASE(headers_change_and_checksums_hold),
        CASE(reordered_frames_come_later_and_all_come),
        CASE(delayed_frames_wait_their_time),
        CASE(losses_and_doubles_are_as_frequent_as_wanted),
        CASE(any_bytes_go_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
