/* Measure the software NIC without sockets: frames of marked floats to the wire, and back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/virtio_net.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fedclient/datacenter/nic/packet/packet_nic.h"
#include "fedcodec/bursts.h"
#include "gradients.h"

/*
 *     bench_nic [FILE]
 *
 * The table has the medians of Gbit/s of float32 through fednic_nic_take in one thread, and their
 * ratio to memcpy of the same frames. Frames have 1,514 bytes, or 45 times the payload of such a
 * frame. Values are Laplace-distributed with scales 10^-3, 0.03 and 1,000, or are a gradient from
 * FILE (safetensors or raw float32). Each value that comes back is compared with
 * fedcodec_bursts_round.
 */

enum {
    E = 10,
    ROUNDS = 15,
    HEADERS = 14 + 20 + 32, /* Ethernet, IPv4, TCP with timestamps */
    SEGMENT = 1448,
    SUPER = 45 * SEGMENT,
    VALUES = 32 * SUPER / 4,
    ROOM = 2 * 4 * VALUES,
    FRAMES = 4 * VALUES / SEGMENT
};

typedef struct tape {
    uint8_t *data;
    size_t len;
    size_t count;
    struct {
        size_t at, len;
        fednic_offload offload;
    } frame[2 * FRAMES];
} tape;

static void put16(uint8_t *to, unsigned value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static void put32(uint8_t *to, uint32_t value) {
    put16(to, value >> 16);
    put16(to + 2, value & 0xffff);
}

static unsigned sum16(const uint8_t *data, size_t len, unsigned sum) {
    for (size_t k = 0; k + 1 < len; k += 2) {
        sum += (unsigned)data[k] << 8 | data[k + 1];
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* Write the headers of a segment. tcp: length of the TCP header; back: the segment goes from the
 * peer to the host. */
static void put_headers(uint8_t *f, size_t tcp, size_t payload, uint32_t seq, uint8_t flags,
                        bool back) {
    static const uint8_t address[2][4] = {{10, 0, 0, 1}, {10, 0, 0, 2}};
    static const uint8_t options[] = {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1};
    uint8_t *ip = f + 14, *t = ip + 20;
    memset(f, 0, 14 + 20 + tcp);
    f[5] = back ? 1 : 2;
    f[11] = back ? 2 : 1;
    put16(f + 12, 0x0800);
    ip[0] = 0x45;
    ip[1] = FEDNIC_MARKED;
    put16(ip + 2, (unsigned)(20 + tcp + payload));
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = 6;
    memcpy(ip + 12, address[back], 4);
    memcpy(ip + 16, address[!back], 4);
    put16(ip + 10, ~sum16(ip, 20, 0) & 0xffff);
    put16(t, back ? 7000 : 40000);
    put16(t + 2, back ? 40000 : 7000);
    put32(t + 4, seq);
    put32(t + 8, back ? 1000 : 1);
    t[12] = (uint8_t)(tcp / 4 << 4);
    t[13] = flags;
    put16(t + 14, 65535);
    memcpy(t + 20, options, tcp - 20 < sizeof options ? tcp - 20 : sizeof options);
    /* The NIC must complete the checksum. */
    put16(t + 16, sum16(ip + 12, 8, (unsigned)(6 + tcp + payload)));
}

static void keep(void *user, const fednic_frame *frame) {
    tape *t = user;
    if (t->count == 2 * FRAMES || t->len + frame->len > ROOM) {
        fprintf(
            stderr,
            "bench_nic: the NIC makes more frames than FRAMES in tests/bench/bench_nic.c allows\n");
        exit(1);
    }
    memcpy(t->data + t->len, frame->data, frame->len);
    t->frame[t->count].at = t->len;
    t->frame[t->count].len = frame->len;
    t->frame[t->count++].offload = frame->offload;
    t->len += frame->len;
}

static void cut(tape *t, const float *values, size_t each, uint32_t seq) {
    static uint8_t data[HEADERS + SUPER];
    const bool super = each > SEGMENT;
    fednic_frame frame = {data,
                          HEADERS + each,
                          {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                           .gso_type = super ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_NONE,
                           .hdr_len = HEADERS,
                           .gso_size = super ? SEGMENT : 0,
                           .csum_start = 14 + 20,
                           .csum_offset = 16}};
    for (size_t at = 0; at < 4 * (size_t)VALUES; at += each) {
        put_headers(data, 32, each, seq + (uint32_t)at, 0x10, false);
        memcpy(data + HEADERS, (const uint8_t *)values + at, each);
        keep(t, &frame);
    }
}

typedef struct pair {
    fednic_nic *near, *far;
} pair;

static void pass(fednic_nic *nic, fednic_side side, const tape *from, fednic_emit *emit, void *to) {
    for (size_t k = 0; k < from->count; k++) {
        const fednic_frame frame = {from->data + from->frame[k].at, from->frame[k].len,
                                    from->frame[k].offload};
        fednic_nic_take(nic, side, &frame, 1, emit, to);
    }
}

/* Pass a marked SYN, and then its answer, through both NICs. */
static void meet(pair *p, tape *one, tape *two) {
    for (int back = 0; back < 2; back++) {
        uint8_t data[14 + 20 + 20];
        fednic_frame frame = {
            data,
            sizeof data,
            {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 16}};
        put_headers(data, 20, 0, back ? 0 : 999, back ? 0x12 : 0x02, back);
        one->len = one->count = two->len = two->count = 0;
        fednic_nic_take(back ? p->far : p->near, FEDNIC_HOST, &frame, 1, keep, one);
        pass(back ? p->near : p->far, FEDNIC_WIRE, one, keep, two);
    }
    one->len = one->count = two->len = two->count = 0;
}

static void open_pair(pair *p) {
    const fednic_nic_options options = {.e = E};
    fed_error err = {.text = ""};
    bench_require(fednic_nic_new(&options, &p->near, &err), err.text);
    bench_require(fednic_nic_new(&options, &p->far, &err), err.text);
}

typedef struct bench {
    tape host, wire, back;
    float *values, *rounded;
    uint8_t *room;
} bench;

static void count_bytes(void *user, const fednic_frame *frame) {
    *(size_t *)user += frame->len;
}

static void copy(const tape *t, uint8_t *to) {
    for (size_t k = 0; k < t->count; k++) {
        memcpy(to, t->data + t->frame[k].at, t->frame[k].len);
        __asm__ volatile("" ::"r"(to) : "memory");
    }
}

static void verify(const bench *b) {
    size_t at = 0;
    for (size_t k = 0; k < b->back.count; k++) {
        const size_t payload = b->back.frame[k].len - HEADERS;
        if (at + payload > 4 * (size_t)VALUES ||
            memcmp(b->back.data + b->back.frame[k].at + HEADERS, (uint8_t *)b->rounded + at,
                   payload) != 0) {
            break;
        }
        at += payload;
    }
    if (at != 4 * (size_t)VALUES) {
        fprintf(stderr,
                "bench_nic: the payload that came back differs from the codec's rounding at or "
                "after byte %zu\n",
                at);
        exit(1);
    }
}

static void print_way(double seconds, double copied) {
    printf(" %.2f | %.3f |", 32e-9 * VALUES / seconds, copied / seconds);
}

static void row(bench *b, const char *name, size_t each, const float *values) {
    pair p;
    bench_times to = {.count = 0}, from = {.count = 0}, copied = {.count = 0};
    open_pair(&p);
    meet(&p, &b->host, &b->wire);
    cut(&b->host, values, each, 1000);
    pass(p.near, FEDNIC_HOST, &b->host, keep, &b->wire);
    pass(p.far, FEDNIC_WIRE, &b->wire, keep, &b->back);
    verify(b);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = 0;
        BENCH_TIME(&to, pass(p.near, FEDNIC_HOST, &b->host, count_bytes, &bytes));
        BENCH_TIME(&from, pass(p.far, FEDNIC_WIRE, &b->wire, count_bytes, &bytes));
        BENCH_TIME(&copied, copy(&b->host, b->room));
    }
    const double copied_s = bench_median_s(&copied);
    const double ratio = 4.0 * VALUES / ((double)b->wire.len - (double)b->wire.count * HEADERS);
    printf("| %s | %s | %zu | %.2f |", each > SEGMENT ? "TSO" : "MTU", name, b->wire.count, ratio);
    print_way(bench_median_s(&to), copied_s);
    if (ratio > 1) {
        print_way(bench_median_s(&from), copied_s);
    } else {
        printf(" as it came |  |");
    }
    printf("\n");
    b->wire.len = b->wire.count = b->back.len = b->back.count = b->host.len = b->host.count = 0;
    fednic_nic_free(p.near);
    fednic_nic_free(p.far);
}

static void rows(bench *b, const char *name, const gradients *g, float scale) {
    for (size_t i = 0; i < VALUES; i++) {
        const size_t n = g->layout.size;
        b->values[i] = scale * g->g[i / n % g->count][i % n];
    }
    fedcodec_bursts_round(E, b->values, b->rounded, VALUES);
    row(b, name, SEGMENT, b->values);
    row(b, name, SUPER, b->values);
}

int main(int argc, char **argv) {
    bench *b = calloc(1, sizeof *b);
    if (b == NULL || argc > 2) {
        fprintf(stderr, "bench_nic: the command line is: bench_nic [FILE]\n");
        return 2;
    }
    b->host.data = bench_alloc(ROOM);
    b->wire.data = bench_alloc(ROOM);
    b->back.data = bench_alloc(ROOM);
    b->room = bench_alloc(HEADERS + SUPER);
    b->values = bench_alloc(sizeof(float) * VALUES);
    b->rounded = bench_alloc(sizeof(float) * VALUES);
    printf("Bound 2^-%d\n\n| frames | values | packets on the wire | bytes, times fewer | to the "
           "wire, Gbit/s | ÷ memcpy | from the wire, Gbit/s | ÷ memcpy |\n"
           "|---|---|--:|--:|--:|--:|--:|--:|\n",
           E);
    gradients g;
    gradients_draw(&g, VALUES, false);
    const double begin = bench_now_s();
    while (bench_now_s() < begin + 0.3) { /* warm up */
        fedcodec_bursts_round(E, g.g[0], b->values, VALUES);
    }
    rows(b, "compressible", &g, 1);
    rows(b, "mixed", &g, 30);
    rows(b, "incompressible", &g, 1e6f);
    gradients_free(&g);
    if (argc == 2) {
        gradients_read(&g, (const char *const *)&argv[1], 1);
        rows(b, "the gradient", &g, 1);
        gradients_free(&g);
    }
    return 0;
}
