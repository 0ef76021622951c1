/* A stream of floats through two NICs and a bad line. TCP cuts the stream anywhere, and repeats
 * it with other cuts. The line loses, doubles, reorders and damages frames, and changes DSCP
 * and ECN. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"
#include "fed_cases.h"
#include "fedcodec/bursts.h"
#include "ip_tos.h"
#include "nic_frames.h"

enum { E = 10, N = 100000, BYTES = 4 * N, TWIST = 253 };
enum { MARKED = 0x28, COMPRESSED = 0x2c, TOS = 0xfc };
enum { PEER_ISN = 77, ROUNDS = 100000, HELD = 16 };

typedef struct stream {
    fed_rng rng;
    fednic_nic *near, *far;
    nic_shape shape;
    uint32_t isn;
    uint8_t plain[BYTES], rounded[BYTES], got[BYTES];
    bool cut[N], has[BYTES]; /* floats that a segment's border cuts; bytes that arrived */
    size_t acked;            /* number of bytes that have arrived without a gap */
    nic_heap *wire;
    size_t held;
    fednic_frame late[HELD];
    uint8_t late_memory[HELD][FRAME_ROOM];
    uint8_t memory[FRAME_ROOM], damaged[FRAME_ROOM];
    size_t restored, dropped;
} stream;

static bool one_in(stream *s, uint32_t n) {
    return fed_rng_below(&s->rng, n) == 0;
}

static void make_values(stream *s) {
    static float x[N], y[N];
    float scale = 0.01f;
    for (size_t i = 0; i < N; i++) {
        if (i % 1000 == 0) {
            const float scales[] = {0.01f, 0.01f, 1.0f, 9.0f, 0.0f};
            scale = scales[fed_rng_below(&s->rng, 5)];
        }
        x[i] = (fed_rng_float(&s->rng) + 0.2f) * scale;
    }
    fedcodec_bursts_round(E, x, y, N);
    memcpy(s->plain, x, BYTES);
    memcpy(s->rounded, y, BYTES);
}

static void arrives(void *user, const fednic_frame *frame) {
    stream *s = user;
    nic_parts p;
    if (!nic_frame_read(frame, 6, &p)) {
        s->dropped++;
        return;
    }
    if (p.payload_len == 0) {
        return;
    }
    size_t at = p.seq - s->isn - 1;
    assert_true(at + p.payload_len <= BYTES);
    for (size_t i = 0; i < p.payload_len; i++) {
        uint8_t byte = frame->data[p.payload + i];
        bool raw = s->cut[(at + i) / 4] && byte == s->plain[at + i];
        if (byte != s->rounded[at + i] && !raw) {
            fail_msg("byte %zu of the stream arrived with the wrong value %02x", at + i, byte);
        }
    }
    memcpy(s->got + at, frame->data + p.payload, p.payload_len);
    memset(s->has + at, true, p.payload_len);
    while (s->acked < BYTES && s->has[s->acked]) {
        s->acked++;
    }
}

/* Change DSCP and ECN as a router does. In IPv4 they are the lower byte of a 16-bit word. */
static void change_tos(uint8_t *ip, uint8_t family, uint8_t tos) {
    if (family == 6) {
        ip[0] = (uint8_t)((ip[0] & 0xf0) | tos >> 4);
        ip[1] = (uint8_t)((ip[1] & 0x0f) | tos << 4);
        return;
    }
    uint32_t sum = (uint32_t)(uint16_t) ~(ip[10] << 8 | ip[11]) + (0xffffu - ip[1]) + tos;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    ip[1] = tos;
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
}

static void delivers(stream *s, const fednic_frame *frame) {
    fednic_nic_take(s->far, FEDNIC_WIRE, frame, 0, arrives, s);
}

static void passes(stream *s, const fednic_frame *sent) {
    nic_parts p;
    uint8_t protocol = 6;
    const uint8_t *ip = sent->data + 14 + 4 * s->shape.vlans;
    if ((ip_tos(ip) & TOS) == COMPRESSED) {
        protocol = TWIST;
        s->restored++;
    }
    assert_true(nic_frame_read(sent, protocol, &p));
    if (one_in(s, 15)) {
        return;
    }
    fednic_frame frame = nic_frame_completed(sent, s->damaged);
    if (sent->offload.gso_type != 0 || one_in(s, 2)) {
        /* Keep the frame as it was sent, even if its checksum is partial, as a veth device does. */
        frame.offload = sent->offload;
        memcpy(s->damaged, sent->data, sent->len);
    }
    if (one_in(s, 4)) {
        change_tos(s->damaged + p.ip, p.family, (uint8_t)fed_rng_below(&s->rng, 256));
    }
    if (frame.offload.flags == 0 && one_in(s, 20)) {
        s->damaged[p.tcp + fed_rng_below(&s->rng, (uint32_t)(frame.len - p.tcp))] ^= 4;
    }
    if (s->held < HELD && one_in(s, 5)) {
        memcpy(s->late_memory[s->held], s->damaged, frame.len);
        s->late[s->held] = frame;
        s->late[s->held].data = s->late_memory[s->held];
        s->held++;
        return;
    }
    delivers(s, &frame);
    if (one_in(s, 15)) {
        delivers(s, &frame);
    }
    if (s->held > 0 && one_in(s, 3)) {
        delivers(s, &s->late[--s->held]);
    }
}

static void sends(stream *s, size_t at, size_t len, uint16_t gso_size) {
    nic_shape shape = s->shape;
    shape.flags = (uint8_t)(SEG_ACK | (at + len == BYTES ? SEG_FIN | SEG_PSH : 0));
    shape.seq = s->isn + 1 + (uint32_t)at;
    shape.ack = PEER_ISN + 1;
    shape.gso_size = shape.partial && len > gso_size ? gso_size : 0;
    shape.tos = (uint8_t)(MARKED | fed_rng_below(&s->rng, 4));
    s->cut[at / 4] |= at % 4 != 0;
    s->cut[(at + len - 1) / 4] |= (at + len) % 4 != 0;
    fednic_frame frame = nic_frame(&shape, s->plain + at, len, s->memory);
    s->wire->count = 0;
    fednic_nic_take(s->near, FEDNIC_HOST, &frame, 0, nic_heap_keep, s->wire);
    for (size_t i = 0; i < s->wire->count; i++) {
        passes(s, &s->wire->frame[i]);
    }
}

/* Send mostly new bytes. Now and then repeat bytes from the first one that is missing at the
 * receiver, or from any place before the new ones. */
static void sends_all(stream *s) {
    size_t next = 0;
    for (int round = 0; s->acked < BYTES; round++) {
        assert_true(round < ROUNDS);
        size_t at = next;
        if (next == BYTES || one_in(s, 6)) {
            at = one_in(s, 3) ? fed_rng_below(&s->rng, (uint32_t)next + 1) : s->acked;
        }
        at = at < BYTES ? at : BYTES - 1;
        const uint16_t units[] = {1448, 1447, 536, 8948};
        const uint32_t mosts[] = {1448, 12000, 4000, 40};
        size_t len = 1 + fed_rng_below(&s->rng, mosts[fed_rng_below(&s->rng, 4)]);
        if (!one_in(s, 4) && len > 4) {
            len -= (at + len) % 4;
        }
        len = len < BYTES - at ? len : BYTES - at;
        sends(s, at, len, units[fed_rng_below(&s->rng, 4)]);
        next = next > at + len ? next : at + len;
    }
}

static void agrees(stream *s) {
    nic_shape shape = s->shape;
    shape.tos = MARKED;
    shape.flags = SEG_SYN;
    shape.seq = s->isn;
    for (int side = 0; side < 2; side++) {
        fednic_frame frame = nic_frame(&shape, NULL, 0, s->memory);
        fednic_nic *from = side == 0 ? s->near : s->far, *to = side == 0 ? s->far : s->near;
        s->wire->count = 0;
        fednic_nic_take(from, FEDNIC_HOST, &frame, 0, nic_heap_keep, s->wire);
        assert_int_equal(s->wire->count, 1);
        fednic_nic_take(to, FEDNIC_WIRE, &s->wire->frame[0], 0, nic_heap_keep, s->wire);
        shape.backwards = true;
        shape.flags = SEG_SYN | SEG_ACK;
        shape.seq = PEER_ISN;
        shape.ack = s->isn + 1;
    }
}

static void run(const nic_shape *shape, uint32_t isn, uint32_t seed, size_t *coded, size_t *bad) {
    stream *s = calloc(1, sizeof *s);
    assert_non_null(s);
    fednic_nic_options options = {.e = E, .flows = 4};
    assert_fed_ok(fednic_nic_new(&options, &s->near, NULL));
    assert_fed_ok(fednic_nic_new(&options, &s->far, NULL));
    s->wire = nic_heap_new();
    s->shape = *shape;
    s->isn = isn;
    fed_rng_init(&s->rng, 22, seed, 0);
    make_values(s);
    agrees(s);
    sends_all(s);
    for (size_t i = 0; i < N; i++) {
        if (!s->cut[i]) {
            assert_memory_equal(s->got + 4 * i, s->rounded + 4 * i, 4);
        }
    }
    *coded += s->restored;
    *bad += s->dropped;
    fednic_nic_free(s->near);
    fednic_nic_free(s->far);
    nic_heap_free(s->wire);
    free(s);
}

FED_TEST(a_stream_arrives_rounded_however_it_is_cut_and_shaken) {
    size_t coded = 0, bad = 0;
    for (uint32_t seed = 0; seed < 16; seed++) {
        nic_shape shape = {.family = seed % 2 == 0 ? 4 : 6,
                           .vlans = (uint8_t)(seed % 3),
                           .ip_words = (uint8_t)(seed % 5),
                           .partial = seed % 4 < 3};
        run(&shape, seed % 4 == 1 ? UINT32_MAX - 50000 : 1000 + seed, seed, &coded, &bad);
    }
    assert_true(coded > 1000 && bad > 50);
}
