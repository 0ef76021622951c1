/* TCP connections with known bytes between two hosts with offload NICs (nic_streams.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: accept4 */
#include "nic_streams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "fedcodec/bursts.h"

enum { VALUES = 1 << 18, CHUNK = 1 << 16, MARK = 0x28, FAST_OPEN_QUEUE = 16 };

typedef struct values {
    float raw[VALUES], rounded[VALUES];
} values;

typedef struct end {
    int fd;
    size_t sent, received;
    uint32_t sends_from, expects_from;
    bool closed;
    uint8_t raw, rounded; /* 1: the present float's bytes so far fit its raw (rounded) value */
} end;

typedef struct stream {
    nic_stream_plan plan;
    int door;
    end ends[2];
} stream;

typedef struct streams {
    const char *what;
    values *table;
    fed_rng rng;
    stream all[NIC_STREAMS];
    size_t count;
    nic_tally tally;
    uint8_t chunk[CHUNK];
} streams;

static void fill(values *v) {
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    for (size_t k = 0; k < VALUES; k++) {
        uint32_t bits = fed_rng_u32(&rng);
        float x = fed_rng_float(&rng) - 0.5f;
        v->raw[k] = x * x * x * ((bits & 7) == 0 ? 16.0f : 0.1f);
        if ((bits & 0xff00) == 0) { /* sometimes random bits, which may be infinity or NaN */
            memcpy(&v->raw[k], &bits, sizeof bits);
        }
    }
    fedcodec_bursts_round(NIC_BOUND, v->raw, v->rounded, VALUES);
}

typedef union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} address;

static socklen_t address_of(const nic_stream_plan *p, int host, uint16_t port, address *a) {
    memset(a, 0, sizeof *a);
    char text[20];
    (void)snprintf(text, sizeof text, p->six ? "fd79::%d" : "10.79.0.%d", host + 1);
    if (p->six) {
        a->six.sin6_family = AF_INET6;
        a->six.sin6_port = htons(port);
        assert_int_equal(inet_pton(AF_INET6, text, &a->six.sin6_addr), 1);
        return sizeof a->six;
    }
    a->four.sin_family = AF_INET;
    a->four.sin_port = htons(port);
    assert_int_equal(inet_pton(AF_INET, text, &a->four.sin_addr), 1);
    return sizeof a->four;
}

static void set(int fd, int level, int name, int value) {
    assert_int_equal(setsockopt(fd, level, name, &value, sizeof value), 0);
}

static int make_socket(const nic_world *w, const nic_stream_plan *p, int host) {
    int family = p->six ? AF_INET6 : AF_INET;
    int fd = nic_world_socket(w, host, family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int tos = p->marked ? MARK : p->tos;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (tos != 0) {
        set(fd, p->six ? IPPROTO_IPV6 : IPPROTO_IP, p->six ? IPV6_TCLASS : IP_TOS, tos);
    }
    if (p->mss > 0) {
        set(fd, IPPROTO_TCP, TCP_MAXSEG, p->mss);
    }
    if (p->room > 0) {
        set(fd, SOL_SOCKET, SO_RCVBUF, p->room);
    }
    return fd;
}

static void open_stream(const nic_world *w, stream *s) {
    const nic_stream_plan *p = &s->plan;
    address at;
    socklen_t len = address_of(p, 1 - p->from, 0, &at);
    s->door = make_socket(w, p, 1 - p->from);
    if (p->fast_open) {
        set(s->door, IPPROTO_TCP, TCP_FASTOPEN, FAST_OPEN_QUEUE);
    }
    assert_int_equal(bind(s->door, &at.any, len), 0);
    assert_int_equal(listen(s->door, 4), 0);
    assert_int_equal(getsockname(s->door, &at.any, &len), 0);
    address own;
    socklen_t own_len = address_of(p, p->from, p->port, &own);
    int fd = make_socket(w, p, p->from);
    if (p->fast_open) {
        set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    }
    assert_int_equal(bind(fd, &own.any, own_len), 0);
    if (connect(fd, &at.any, len) != 0 && errno != EINPROGRESS) {
        fail_msg("can't connect to the other host: %s", strerror(errno));
    }
    s->ends[0].fd = fd;
    s->ends[1].fd = -1;
}

static void begin(streams *all, nic_world *w, const nic_stream_plan *plans) {
    for (size_t k = 0; k < all->count; k++) {
        stream *s = &all->all[k];
        s->plan = plans[k];
        for (int i = 0; i < 2; i++) {
            uint32_t from = fed_rng_below(&all->rng, VALUES);
            s->ends[i].sends_from = from;
            s->ends[1 - i].expects_from = from;
            s->ends[i].raw = s->ends[i].rounded = 1;
        }
        open_stream(w, s);
    }
}

static uint8_t byte_of(const float *table, uint32_t from, size_t at) {
    return ((const uint8_t *)(table + (from + at / 4) % VALUES))[at % 4];
}

static void count_float(streams *all, bool same, end *e) {
    nic_tally *t = &all->tally;
    if (same) {
        t->same++;
    } else if (e->rounded != 0) {
        t->rounded++;
    } else if (e->raw != 0) {
        t->raw++;
    } else {
        t->mixed++;
    }
    e->raw = e->rounded = 1;
}

static bool same_bits(const values *v, uint32_t i) {
    uint32_t bits[2];
    memcpy(&bits[0], &v->raw[i], sizeof bits[0]);
    memcpy(&bits[1], &v->rounded[i], sizeof bits[1]);
    return bits[0] == bits[1];
}

static void check(streams *all, const stream *s, end *e, const uint8_t *data, size_t len) {
    const values *v = all->table;
    for (size_t k = 0; k < len; k++) {
        size_t at = e->received + k;
        uint8_t raw = byte_of(v->raw, e->expects_from, at);
        uint8_t rounded = s->plan.marked ? byte_of(v->rounded, e->expects_from, at) : raw;
        if (data[k] != raw && data[k] != rounded) {
            fail_msg("%s: connection %d, byte %zu is %02x, neither %02x nor %02x", all->what,
                     (int)(s - all->all), at, data[k], raw, rounded);
        }
        e->raw &= data[k] == raw;
        e->rounded &= data[k] == rounded;
        if (at % 4 == 3 && s->plan.marked) {
            uint32_t i = (uint32_t)((e->expects_from + at / 4) % VALUES);
            count_float(all, same_bits(v, i), e);
        }
    }
    e->received += len;
    if (e->received > s->plan.bytes) {
        fail_msg("%s: a connection received more bytes than were sent", all->what);
    }
}

static void must_go_on(const streams *all, const stream *s, const char *call) {
    if (errno != EAGAIN && errno != EINTR && errno != EINPROGRESS) {
        fail_msg("%s: connection %d: %s: %s", all->what, (int)(s - all->all), call,
                 strerror(errno));
    }
}

static void write_some(streams *all, stream *s, end *e) {
    size_t left = s->plan.bytes - e->sent;
    size_t len = s->plan.odd ? 1 + fed_rng_below(&all->rng, 5000)
                             : 4 * (1 + (size_t)fed_rng_below(&all->rng, CHUNK / 4));
    len = len < left ? len : left;
    for (size_t k = 0; k < len; k++) {
        all->chunk[k] = byte_of(all->table->raw, e->sends_from, e->sent + k);
    }
    ssize_t n = send(e->fd, all->chunk, len, MSG_NOSIGNAL);
    if (n < 0) {
        must_go_on(all, s, "send");
        return;
    }
    e->sent += (size_t)n;
    if (e->sent == s->plan.bytes) {
        assert_int_equal(shutdown(e->fd, SHUT_WR), 0);
    }
}

static void read_some(streams *all, stream *s, end *e) {
    ssize_t n = recv(e->fd, all->chunk, CHUNK, 0);
    if (n < 0) {
        must_go_on(all, s, "recv");
    } else if (n > 0) {
        check(all, s, e, all->chunk, (size_t)n);
    } else {
        assert_int_equal(e->received, s->plan.bytes);
        e->closed = e->sent == s->plan.bytes;
    }
}

static void accept_one(stream *s) {
    int fd = accept4(s->door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        close(s->door);
        s->door = -1;
        s->ends[1].fd = fd;
    }
}

static void turn(streams *all) {
    struct pollfd p[NIC_STREAMS * 3];
    for (size_t k = 0; k < all->count; k++) {
        stream *s = &all->all[k];
        p[3 * k] = (struct pollfd){.fd = s->door, .events = POLLIN};
        for (size_t i = 0; i < 2; i++) {
            end *e = &s->ends[i];
            short out = e->sent < s->plan.bytes ? POLLOUT : 0;
            p[3 * k + 1 + i] =
                (struct pollfd){.fd = e->closed ? -1 : e->fd, .events = (short)(POLLIN | out)};
        }
    }
    assert_true(poll(p, 3 * all->count, 100) >= 0);
    for (size_t k = 0; k < all->count; k++) {
        stream *s = &all->all[k];
        if (p[3 * k].revents != 0) {
            accept_one(s);
        }
        for (size_t i = 0; i < 2; i++) {
            short what = p[3 * k + 1 + i].revents;
            if ((what & POLLOUT) != 0) {
                write_some(all, s, &s->ends[i]);
            }
            if ((what & (POLLIN | POLLHUP | POLLERR)) != 0) {
                read_some(all, s, &s->ends[i]);
            }
        }
    }
}

static size_t sum_up(const streams *all, size_t *wanted, size_t *open) {
    size_t got = 0;
    *wanted = *open = 0;
    for (size_t k = 0; k < all->count; k++) {
        const stream *s = &all->all[k];
        got += s->ends[0].received + s->ends[1].received;
        *wanted += 2 * s->plan.bytes;
        *open += (s->ends[0].closed ? 0u : 1u) + (s->ends[1].closed ? 0u : 1u);
    }
    return got;
}

nic_tally nic_streams_run(nic_world *w, const char *what, const nic_stream_plan *plans,
                          size_t count, int64_t stall_ms, void (*midway)(nic_world *w)) {
    streams *all = calloc(1, sizeof *all);
    values *table = malloc(sizeof *table);
    assert_true(all != NULL && table != NULL && count <= NIC_STREAMS);
    all->what = what;
    all->table = table;
    all->count = count;
    fill(table);
    fed_rng_init(&all->rng, 9, 0, 0);
    begin(all, w, plans);
    int64_t until = fed_clock_monotonic_ms() + stall_ms;
    size_t wanted = 0, got = 0, open = 1;
    while (open > 0) {
        turn(all);
        const size_t before = got;
        got = sum_up(all, &wanted, &open);
        if (got > before) {
            until = fed_clock_monotonic_ms() + stall_ms;
        }
        if (midway != NULL && got * 2 > wanted) {
            midway(w);
            midway = NULL;
        }
        if (fed_clock_monotonic_ms() > until) {
            fail_msg("%s: no byte arrived for %d ms; only %zu of %zu have, and %zu ends are open",
                     what, (int)stall_ms, got, wanted, open);
        }
    }
    for (size_t k = 0; k < count; k++) {
        close(all->all[k].ends[0].fd);
        close(all->all[k].ends[1].fd);
    }
    nic_tally tally = all->tally;
    free(table);
    free(all);
    return tally;
}
