/* Attackers on the line between two hosts with offload NICs. The data must stay right, and the NICs
 * must run on. Skipped without network namespaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fed_cases.h"
#include "nic_streams.h"

enum {
    SKIPPED = 77,
    STALL_MS = 30000,
    MANY = 8,
    BYTES = 4 << 20,
    COPY = 1400,
    FAR = 0x40000000,
    TWIST = 253 - 6
};

/* An attacker, who sends forged frames that resemble those heard. */
typedef struct stranger {
    int ends[NIC_HOSTS];
    atomic_bool stop;
    fed_rng rng;
    uint64_t heard, sent, refused; /* refused: frames that Linux did not send */
    uint8_t room[BAD_FRAME];
} stranger;

/* Set when all connections are open, because a forged SYN may end one that is not open yet. */
static atomic_bool meddling;

static void begin_to_meddle(nic_world *w) {
    (void)w;
    atomic_store(&meddling, true);
}

static uint32_t below(stranger *s, uint32_t n) {
    return fed_rng_below(&s->rng, n);
}

static void put16(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

/* Give the segment a valid checksum, or if `twisted` that of a compressed segment. */
static void seal(bad_frame *f, const bad_parts *p, bool twisted) {
    bad_frame_set_tos(f, p, 3, twisted ? 0x2c : 0x28);
    put16(f->data + p->transport + 16, bad_frame_pseudo(f, p) + (twisted ? TWIST : 0u));
    f->len = p->end;
    f->offload = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                         .csum_start = (uint16_t)p->transport,
                                         .csum_offset = 16};
    bad_frame_complete(f);
}

/* A segment with forged data and a sequence number outside of the receiver's window. */
static void out_of_window(stranger *s, bad_frame *f, const bad_parts *p) {
    f->data[p->transport + 4] ^= FAR >> 24;
    for (size_t k = p->payload; k < p->end; k++) {
        f->data[k] = (uint8_t)fed_rng_u32(&s->rng);
    }
    if (p->payload + 4 <= p->end && below(s, 2) != 0) {
        put16(f->data + p->payload, below(s, 1460));
        f->data[p->payload + 2] = (uint8_t)below(s, 4);
        f->data[p->payload + 3] = 0;
    }
    seal(f, p, below(s, 2) != 0);
}

static void not_the_format(stranger *s, bad_frame *f, const bad_parts *p) {
    if (p->payload + 4 <= p->end) {
        uint32_t kind = below(s, 4);
        f->data[p->payload + 2] = (uint8_t)(kind == 0 ? 4 + below(s, 250) : 0);
        f->data[p->payload + 3] = (uint8_t)(kind == 1 ? 1 + below(s, 255) : 0);
        put16(f->data + p->payload, kind == 2 ? 0 : 65535 - below(s, 3));
    }
    seal(f, p, true);
}

static void another_syn(stranger *s, bad_frame *f, const bad_parts *p) {
    uint8_t *tcp = f->data + p->transport;
    static const uint8_t option[] = {253, 4, 0xfe, 0xd1};
    if (p->payload - p->transport < 32) {
        return;
    }
    put16(tcp + 4, below(s, 65536));
    tcp[13] = below(s, 2) != 0 ? 0x12 : 0x02;
    memset(tcp + 20, 1, 12);
    memcpy(tcp + 20, option, sizeof option);
    tcp[20 + below(s, 4)] ^= (uint8_t)(below(s, 2) * below(s, 256));
    seal(f, p, below(s, 4) == 0);
}

static void wrong_lengths(stranger *s, bad_frame *f, const bad_parts *p) {
    uint8_t *ip = f->data + p->ip;
    f->data[p->transport + 4] ^= FAR >> 24;
    switch (below(s, 5)) {
    case 0:
        put16(ip + (p->family == 4 ? 2 : 4), below(s, 65536));
        break;
    case 1:
        ip[0] = (uint8_t)((ip[0] & 0xf0) | below(s, 16));
        break;
    case 2:
        f->data[p->transport + 12] = (uint8_t)(below(s, 16) << 4);
        break;
    case 3:
        f->len = below(s, (uint32_t)f->len);
        break;
    default:
        ip[6] = (uint8_t)below(s, 256);
        break;
    }
    bad_frame_set_tos(f, p, 0xff, 0);
}

static void fragment(stranger *s, bad_frame *f, const bad_parts *p) {
    uint8_t *ip = f->data + p->ip;
    f->data[p->transport + 4] ^= FAR >> 24;
    bad_frame_set_tos(f, p, 3, below(s, 2) != 0 ? 0x2c : 0x28);
    if (p->family == 4) {
        put16(ip + 4, below(s, 8));
        put16(ip + 6, (below(s, 2) << 13) | below(s, 4));
        put16(ip + 2, 20 + 8 * below(s, 20));
        bad_frame_set_tos(f, p, 0xff, 0);
    } else if (p->end + 8 <= COPY) {
        static const uint8_t kinds[] = {0, 43, 44, 60, 51, 135, 255};
        memmove(ip + 48, ip + 40, p->end - p->transport);
        memset(ip + 40, 0, 8);
        ip[40] = 6;
        ip[43] = (uint8_t)(below(s, 2) * below(s, 32));
        ip[6] = kinds[below(s, sizeof kinds)];
        put16(ip + 4, (uint32_t)(p->end - p->transport) + 8);
        f->len = p->end + 8;
    }
}

static void noise(stranger *s, bad_frame *f) {
    static const uint16_t types[] = {0x0800, 0x86dd, 0x8100, 0x88a8, 0x0806, 0x88cc, 0x9000, 100};
    f->len = 14 + below(s, 200);
    for (size_t k = 12; k < f->len; k++) {
        f->data[k] = (uint8_t)fed_rng_u32(&s->rng);
    }
    put16(f->data + 12, types[below(s, 8)]);
    f->data[14] = below(s, 2) != 0 ? 0x45 : 0x60;
}

static void strange_offload(stranger *s, bad_frame *f) {
    static const uint8_t kinds[] = {
        VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP, 5, 0x84, 0};
    f->offload = (struct virtio_net_hdr){.flags = (uint8_t)below(s, 4),
                                         .gso_type = kinds[below(s, 6)],
                                         .gso_size = (uint16_t)below(s, 2000),
                                         .hdr_len = (uint16_t)below(s, 100),
                                         .csum_start = (uint16_t)below(s, 80),
                                         .csum_offset = (uint16_t)below(s, 20)};
}

static void imitate(stranger *s, bad_frame *f) {
    bad_parts p = bad_frame_parts(f);
    uint32_t kind = below(s, 16);
    if (kind == 0 || !p.tcp) {
        noise(s, f);
    } else if (kind < 4) {
        out_of_window(s, f, &p);
    } else if (kind < 7) {
        not_the_format(s, f, &p);
    } else if (kind < 9) {
        another_syn(s, f, &p);
    } else if (kind < 12) {
        wrong_lengths(s, f, &p);
    } else if (kind < 15) {
        fragment(s, f, &p);
    } else {
        f->data[p.transport + 4] ^= FAR >> 24;
        strange_offload(s, f);
    }
}

static void turn_round(bad_frame *f, const bad_parts *p) {
    uint8_t swap[16];
    const size_t at[][2] = {
        {0, 6}, {p->ip + (p->family == 4 ? 12u : 8u), p->family == 4 ? 4 : 16}, {p->transport, 2}};
    for (size_t k = 0; k < 3; k++) {
        uint8_t *one = f->data + at[k][0];
        size_t len = at[k][1];
        memcpy(swap, one, len);
        memcpy(one, one + len, len);
        memcpy(one + len, swap, len);
    }
}

/* Read a host's next frame, cut to COPY bytes. Returns false if no frame has arrived. */
static bool hear(stranger *s, int end, bad_frame *f) {
    f->data = s->room;
    if (!bad_line_read(s->ends[end], f) || f->len <= 14) {
        return false;
    }
    s->heard++;
    if (f->len > COPY) {
        bad_parts p = bad_frame_parts(f);
        f->len = COPY;
        if (p.tcp) {
            size_t before = p.family == 4 ? p.ip : p.transport;
            put16(f->data + p.ip + (p.family == 4 ? 2 : 4), (uint32_t)(COPY - before));
            bad_frame_set_tos(f, &p, 0xff, 0);
        }
    }
    bad_frame_complete(f);
    return true;
}

static void meddle(stranger *s, int end) {
    bad_frame f;
    if (!hear(s, end, &f) || !atomic_load(&meddling)) {
        return;
    }
    bad_parts p = bad_frame_parts(&f);
    int to = 1 - end;
    if (p.tcp && below(s, 4) == 0) {
        turn_round(&f, &p);
        to = end;
    }
    imitate(s, &f);
    struct iovec io[2] = {{.iov_base = &f.offload, .iov_len = sizeof f.offload},
                          {.iov_base = f.data, .iov_len = f.len}};
    ssize_t n = writev(s->ends[to], io, 2);
    s->sent += n > 0;
    s->refused += n <= 0;
}

static void *run_stranger(void *arg) {
    stranger *s = arg;
    while (!atomic_load(&s->stop)) {
        struct pollfd p[2] = {{.fd = s->ends[0], .events = POLLIN},
                              {.fd = s->ends[1], .events = POLLIN}};
        (void)poll(p, 2, 50);
        for (int k = 0; k < 2; k++) {
            if (p[k].revents != 0) {
                meddle(s, k);
            }
        }
    }
    return NULL;
}

FED_TEST_WITH(strangers_change_no_stream, nic_world *w) {
    stranger *s = calloc(1, sizeof *s);
    pthread_t thread;
    assert_non_null(s);
    fed_rng_init(&s->rng, 41, 0, 0);
    nic_world_line_sockets(w, s->ends);
    assert_int_equal(pthread_create(&thread, NULL, run_stranger, s), 0);
    for (int round = 0; round < 4; round++) {
        nic_stream_plan plans[MANY];
        for (size_t k = 0; k < MANY; k++) {
            plans[k] = (nic_stream_plan){
                .six = k % 2 != 0, .from = k / 2 % 2 != 0, .marked = k < 6, .bytes = BYTES};
        }
        atomic_store(&w->rates.packets, round % 2 != 0);
        nic_tally t = nic_streams_run(w, "among strangers", plans, MANY, STALL_MS, begin_to_meddle);
        atomic_store(&meddling, false);
        print_message("floats: %llu rounded, %llu raw, %llu mixed\n", (unsigned long long)t.rounded,
                      (unsigned long long)t.raw, (unsigned long long)t.mixed);
    }
    atomic_store(&s->stop, true);
    (void)pthread_join(thread, NULL);
    print_message("attackers received %llu frames and sent %llu; Linux refused %llu\n",
                  (unsigned long long)s->heard, (unsigned long long)s->sent,
                  (unsigned long long)s->refused);
    assert_true(s->sent > 1000);
    close(s->ends[0]);
    close(s->ends[1]);
    free(s);
}

static int set_up(void **state) {
    static nic_world w;
    *state = &w;
    nic_world_open(&w, true, true);
    return 0;
}

static int tear_down(void **state) {
    nic_world_close(*state);
    return 0;
}

int main(void) {
    const char *why = NULL;
    if (!nic_world_possible(&why)) {
        fprintf(stderr, "skipped: %s\n", why);
        return SKIPPED;
    }
    return fed_cases_run(set_up, tear_down);
}
