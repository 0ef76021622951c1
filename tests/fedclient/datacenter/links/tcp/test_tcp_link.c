/* The link "tcp" with foreign clients, impostors, peers that break off, and slow readers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedclient/datacenter/links/tcp/tcp_link.h"
#include "fedclient/datacenter/links/tcp/tcp_socket.h"
#include "fedclient/datacenter/nic/packet/packet_nic.h"
#include "link_group.h"

enum { MIB = 1 << 20, SOON_MS = 400, LONG_MS = 20000, MOST_MS = 30000 };

extern const feddc_link_vtable feddc_link_tcp;
static const feddc_link_vtable *const tcp = &feddc_link_tcp;

typedef struct opener {
    feddc_place place;
    void *self;
    fed_status status;
    fed_error err;
    pthread_t thread;
} opener;

static void *open_rank(void *arg) {
    opener *o = arg;
    o->status = tcp->open(&o->place, &o->self, &o->err);
    return NULL;
}

static void start(opener *o, const feddc_place *place) {
    *o = (opener){.place = *place};
    assert_int_equal(pthread_create(&o->thread, NULL, open_rank, o), 0);
}

static void finish(opener *o) {
    pthread_join(o->thread, NULL);
}

static void assert_opened(opener *o) {
    finish(o);
    if (o->status != FED_OK) {
        fail_msg("rank %u could not open its link: %s", o->place.rank, o->err.text);
    }
}

static void meet(const link_group *group, opener *zero, opener *one) {
    start(one, &group->place[1]);
    assert_opened(zero);
    assert_opened(one);
}

static void close_both(link_group *group, opener *zero, opener *one) {
    tcp->close(zero->self, false);
    tcp->close(one->self, false);
    link_group_close(group);
}

static int dial(const char *address) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = LONG_MS / 1000};
    there.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&there, sizeof there), 0);
    return fd;
}

static void say(int fd, const void *data, size_t len) {
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void hear(int fd, void *dst, size_t len) {
    assert_int_equal(recv(fd, dst, len, MSG_WAITALL), (ssize_t)len);
}

/* A worker group of two: rank 0 is the link; the test plays rank 1 with two sockets. */
typedef struct half_worker_group {
    link_group group;
    opener zero;
    int heads, floats;
    uint8_t challenge[TCP_NONCE], hello[TCP_HELLO];
} half_worker_group;

static void start_zero(half_worker_group *g, bool mark) {
    link_group_open(&g->group, tcp, 2);
    g->group.place[0].mark = mark;
    start(&g->zero, &g->group.place[0]);
}

static void greet(half_worker_group *g) {
    uint8_t welcome[TCP_WELCOME];
    tcp_hello me = {.from = 1, .to = 0, .size = 2, .order = feddc_tcp_order()};
    g->heads = dial(g->group.address[0]);
    say(g->heads, feddc_tcp_knock, TCP_KNOCK);
    hear(g->heads, g->challenge, TCP_NONCE);
    feddc_tcp_hello_write(&me, g->group.secret, g->challenge, g->hello);
    say(g->heads, g->hello, TCP_HELLO);
    hear(g->heads, welcome, TCP_WELCOME);
    assert_fed_ok(feddc_tcp_welcome_read(welcome, g->group.secret, g->challenge, g->hello, &me));
    assert_int_equal(me.to, TCP_WELCOME_HERE);
}

static void open_marked(half_worker_group *g, bool mark) {
    uint8_t ticket[TCP_TICKET], ready[TCP_RECORD];
    start_zero(g, mark);
    close(g->group.place[1].listener);
    greet(g);
    g->floats = dial(g->group.address[0]);
    feddc_tcp_ticket(g->group.secret, g->challenge, g->hello, ticket);
    say(g->floats, ticket, TCP_TICKET);
    hear(g->heads, ready, TCP_RECORD);
    assert_int_equal(ready[0], TCP_READY);
    assert_opened(&g->zero);
}

static void open_half(half_worker_group *g) {
    open_marked(g, false);
}

static void close_half(half_worker_group *g) {
    tcp->close(g->zero.self, false);
    close(g->heads);
    close(g->floats);
    link_group_close(&g->group);
}

static void say_record(int fd, uint8_t type, uint32_t len) {
    const tcp_record record = {.type = type, .head = {.step = 5}, .len = len};
    uint8_t bytes[TCP_RECORD];
    feddc_tcp_record_write(&record, bytes);
    say(fd, bytes, sizeof bytes);
}

static feddc_event next(opener *o) {
    feddc_event event;
    fed_error err = {0};
    assert_fed_ok_err(tcp->wait(o->self, LONG_MS, &event, &err));
    return event;
}

static void assert_gone(opener *o, uint32_t peer, bool orderly) {
    const feddc_event event = next(o);
    assert_int_equal(event.kind, FEDDC_GONE);
    assert_int_equal(event.peer, peer);
    assert_int_equal(event.orderly, orderly);
}

static void assert_talk(opener *a, opener *b) {
    const feddc_head head = {.kind = 3};
    fed_error err = {0};
    assert_fed_ok_err(tcp->send(a->self, b->place.rank, &head, "hello", 5, 1, &err));
    feddc_event event = next(a);
    assert_int_equal(event.kind, FEDDC_SENT);
    event = next(b);
    assert_int_equal(event.kind, FEDDC_ARRIVED);
    assert_int_equal(event.peer, a->place.rank);
    assert_memory_equal(event.data, "hello", 5);
    tcp->release(b->self, &event);
}

/* Open both ranks, which must refuse each other. If they time out, as on a busy machine, try
 * again with twice the time. */
static void open_refused(link_group *group, opener *zero, opener *one) {
    const int zero_listener = group->place[0].listener, one_listener = group->place[1].listener;
    uint32_t patience_ms = SOON_MS;
    do {
        group->place[0].listener = fcntl(zero_listener, F_DUPFD_CLOEXEC, 0);
        group->place[1].listener = fcntl(one_listener, F_DUPFD_CLOEXEC, 0);
        group->place[0].patience_ms = group->place[1].patience_ms = patience_ms;
        start(zero, &group->place[0]);
        start(one, &group->place[1]);
        finish(zero);
        finish(one);
        patience_ms *= 2;
    } while ((zero->status == FED_EBUSY || one->status == FED_EBUSY) && patience_ms <= MOST_MS);
    close(zero_listener);
    close(one_listener);
}

static void assert_refused(link_group *group, const char *words) {
    opener zero, one;
    open_refused(group, &zero, &one);
    assert_fed_status(zero.status, FED_EAUTH);
    assert_fed_status(one.status, FED_EAUTH);
    assert_fed_says(zero.err, "rank 1 at 127.0.0.1:");
    assert_fed_says(one.err, "rank 0 at 127.0.0.1:");
    assert_fed_says(zero.err, words);
    assert_fed_says(one.err, words);
    link_group_close(group);
}

FED_TEST(another_secret_does_not_meet) {
    static const uint8_t wrong[FEDDC_SECRET] = {9};
    link_group group;
    link_group_open(&group, tcp, 2);
    group.place[1].secret = wrong;
    assert_refused(&group, "secret");
}

FED_TEST(another_generation_does_not_meet) {
    link_group group;
    link_group_open(&group, tcp, 2);
    group.place[1].generation = 1;
    assert_refused(&group, "another generation");
}

FED_TEST(another_size_does_not_meet) {
    link_group group;
    link_group_open(&group, tcp, 2);
    group.addresses[2] = "127.0.0.1:1";
    group.place[1].size = 3;
    assert_refused(&group, "another size");
}

/* Open a second process of a rank. If no other rank answers it in time, as on a busy machine, try
 * again with more time. */
static void come_again(opener *again, feddc_place place) {
    for (place.patience_ms = SOON_MS; place.patience_ms <= MOST_MS; place.patience_ms *= 2) {
        place.listener = dial(place.address[0]);
        start(again, &place);
        finish(again);
        if (again->status != FED_EBUSY) {
            return;
        }
    }
}

FED_TEST(a_second_process_of_one_rank_stays_outside) {
    link_group group;
    opener rank[3], again;
    link_group_open(&group, tcp, 3);
    start(&rank[0], &group.place[0]);
    start(&rank[1], &group.place[1]);
    /* Wait until both connections of the first process of rank 1 have reached rank 0. */
    while (link_group_connections(group.address[0]) < 2) {
        fed_sleep_ms(1);
    }
    come_again(&again, group.place[1]);
    assert_fed_status(again.status, FED_EAUTH);
    assert_fed_says(again.err, "another process is connected as this rank already");
    start(&rank[2], &group.place[2]);
    for (size_t r = 0; r < 3; r++) {
        assert_opened(&rank[r]);
    }
    assert_talk(&rank[1], &rank[0]);
    for (size_t r = 0; r < 3; r++) {
        tcp->close(rank[r].self, false);
    }
    link_group_close(&group);
}

FED_TEST(a_stranger_at_a_ranks_address_is_not_taken_for_it) {
    link_group group;
    opener one;
    uint8_t noise[2000];
    memset(noise, 0x41, sizeof noise);
    link_group_open(&group, tcp, 2);
    group.place[1].patience_ms = SOON_MS;
    start(&one, &group.place[1]);
    int fd = accept(group.place[0].listener, NULL, NULL);
    say(fd, noise, sizeof noise);
    finish(&one);
    assert_int_not_equal(one.status, FED_OK);
    assert_fed_says(one.err, "rank 0 at 127.0.0.1:");
    close(fd);
    close(group.place[0].listener);
    link_group_close(&group);
}

enum { STRANGERS = 240 };

static int stranger(const char *address, size_t k) {
    uint8_t bytes[TCP_TICKET];
    float value = 16;
    int fd = dial(address);
    memset(bytes, (int)k, sizeof bytes);
    switch (k % 6) {
    case 0:
        break;
    case 1:
        say(fd, bytes, sizeof bytes);
        break;
    case 2: /* half of the bytes with which a rank begins */
        say(fd, feddc_tcp_knock, TCP_KNOCK / 2);
        break;
    case 3: /* a hello, before the challenge, without the secret */
        say(fd, feddc_tcp_knock, TCP_KNOCK);
        say(fd, bytes, TCP_HELLO);
        break;
    case 4:
        say(fd, feddc_tcp_knock, TCP_KNOCK);
        say(fd, bytes, TCP_HELLO / 2);
        break;
    default: /* floats that look like a ticket (tcp_wire.h), but are not any rank's HMAC */
        for (size_t i = 0; i < sizeof bytes; i += sizeof value) {
            memcpy(bytes + i, &value, sizeof value);
        }
        say(fd, bytes, sizeof bytes);
    }
    return fd;
}

static void assert_learned_nothing(int fd, const uint8_t secret[FEDDC_SECRET]) {
    uint8_t got[1000];
    const ssize_t n = recv(fd, got, sizeof got, 0);
    assert_true(n <= 0 || n == TCP_NONCE);
    assert_true(n <= 0 || memcmp(got, secret, FEDDC_SECRET) != 0);
    assert_true(n <= 0 || recv(fd, got, sizeof got, 0) <= 0);
}

FED_TEST(a_crowd_of_strangers_changes_nothing) {
    link_group group;
    opener zero, one;
    int fd[STRANGERS];
    link_group_open(&group, tcp, 2);
    assert_int_equal(listen(group.place[0].listener, 1024), 0);
    start(&zero, &group.place[0]);
    for (size_t k = 0; k < STRANGERS; k++) {
        fd[k] = stranger(group.address[0], k);
    }
    meet(&group, &zero, &one);
    assert_talk(&zero, &one);
    assert_talk(&one, &zero);
    for (size_t k = 0; k < STRANGERS; k++) {
        assert_learned_nothing(fd[k], group.secret);
        close(fd[k]);
    }
    close_both(&group, &zero, &one);
}

FED_TEST(two_challenges_differ) {
    link_group group;
    opener zero, one;
    uint8_t challenge[2][TCP_NONCE];
    link_group_open(&group, tcp, 2);
    start(&zero, &group.place[0]);
    for (size_t k = 0; k < 2; k++) {
        int fd = dial(group.address[0]);
        say(fd, feddc_tcp_knock, TCP_KNOCK);
        hear(fd, challenge[k], TCP_NONCE);
        close(fd);
    }
    assert_memory_not_equal(challenge[0], challenge[1], TCP_NONCE);
    meet(&group, &zero, &one);
    close_both(&group, &zero, &one);
}

FED_TEST(a_rank_may_come_again_while_others_wait) {
    half_worker_group g;
    opener one;
    start_zero(&g, false);
    greet(&g);
    close(g.heads);
    meet(&g.group, &g.zero, &one);
    assert_talk(&g.zero, &one);
    close_both(&g.group, &g.zero, &one);
}

FED_TEST(only_who_says_goodbye_leaves_orderly) {
    for (int goodbye = 0; goodbye < 2; goodbye++) {
        half_worker_group g;
        open_half(&g);
        say_record(g.heads, TCP_INLINE, 3);
        say(g.heads, "abc", 3);
        if (goodbye != 0) {
            say_record(g.heads, TCP_GOODBYE, 0);
        }
        shutdown(g.heads, SHUT_WR);
        const feddc_event event = next(&g.zero);
        assert_int_equal(event.kind, FEDDC_ARRIVED);
        assert_int_equal(event.head.step, 5);
        assert_memory_equal(event.data, "abc", 3);
        assert_gone(&g.zero, 1, goodbye != 0);
        close_half(&g);
    }
}

FED_TEST(half_a_message_does_not_arrive) {
    static const uint8_t part[5000] = {0};
    for (int apart = 0; apart < 2; apart++) {
        half_worker_group g;
        open_half(&g);
        say_record(g.heads, apart != 0 ? TCP_FLOATS : TCP_INLINE, 2 * sizeof part);
        say(apart != 0 ? g.floats : g.heads, part, sizeof part);
        shutdown(apart != 0 ? g.floats : g.heads, SHUT_WR);
        assert_gone(&g.zero, 1, false);
        close_half(&g);
    }
}

FED_TEST(nonsense_ends_a_peer) {
    static const struct {
        uint8_t type;
        uint32_t len;
    } bad[] = {{0, 0},          {99, 4},         {TCP_INLINE, TCP_MESSAGE_MAX + 1},
               {TCP_FLOATS, 6}, {TCP_READY, 0},  {TCP_INLINE, UINT32_MAX},
               {TCP_FLOATS, 0}, {TCP_GOODBYE, 4}};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        half_worker_group g;
        open_half(&g);
        say_record(g.heads, bad[k].type, bad[k].len);
        assert_gone(&g.zero, 1, false);
        close_half(&g);
    }
}

FED_TEST(a_message_may_come_byte_by_byte) {
    half_worker_group g;
    feddc_event event;
    fed_error err = {0};
    const tcp_record record = {.type = TCP_INLINE, .len = 9};
    uint8_t bytes[TCP_RECORD];
    open_half(&g);
    feddc_tcp_record_write(&record, bytes);
    for (size_t i = 0; i < TCP_RECORD + 9; i++) {
        assert_fed_ok_err(tcp->wait(g.zero.self, 0, &event, &err));
        assert_int_equal(event.kind, FEDDC_NOTHING);
        say(g.heads, i < TCP_RECORD ? bytes + i : (const uint8_t *)"ninebytes" + i - TCP_RECORD, 1);
    }
    event = next(&g.zero);
    assert_int_equal(event.kind, FEDDC_ARRIVED);
    assert_memory_equal(event.data, "ninebytes", 9);
    close_half(&g);
}

FED_TEST(floats_have_a_connection_of_their_own) {
    enum { N = 3000 };
    half_worker_group g;
    float values[N], got[N];
    uint8_t bytes[TCP_RECORD], text[10];
    tcp_record record;
    fed_error err = {0};
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)i / 7;
    }
    open_half(&g);
    const feddc_head floats = {.flags = FEDDC_FLOATS}, other = {0};
    assert_fed_ok_err(tcp->send(g.zero.self, 1, &floats, values, sizeof values, 1, &err));
    assert_fed_ok_err(tcp->send(g.zero.self, 1, &other, "text", 4, 2, &err));
    hear(g.heads, bytes, TCP_RECORD);
    assert_fed_ok(feddc_tcp_record_read(bytes, &record));
    assert_int_equal(record.type, TCP_FLOATS);
    hear(g.floats, got, sizeof got);
    assert_memory_equal(values, got, sizeof got);
    hear(g.heads, bytes, TCP_RECORD);
    assert_fed_ok(feddc_tcp_record_read(bytes, &record));
    assert_int_equal(record.type, TCP_INLINE);
    hear(g.heads, text, 4);
    assert_memory_equal(text, "text", 4);
    close_half(&g);
}

FED_TEST(a_head_waits_for_the_floats_before_it) {
    enum { N = 2000 };
    half_worker_group g;
    feddc_event event;
    fed_error err = {0};
    float values[N] = {0};
    open_half(&g);
    say_record(g.heads, TCP_FLOATS, sizeof values);
    say_record(g.heads, TCP_INLINE, 2);
    say(g.heads, "ab", 2);
    assert_fed_ok_err(tcp->wait(g.zero.self, 50, &event, &err));
    assert_int_equal(event.kind, FEDDC_NOTHING);
    say(g.floats, values, sizeof values);
    event = next(&g.zero);
    assert_int_equal(event.len, sizeof values);
    event = next(&g.zero);
    assert_int_equal(event.len, 2);
    close_half(&g);
}

enum { PIECE = 2 * MIB + 4, PIECES = 12 };

typedef struct flood {
    opener *o;
    const uint8_t *data;
    uint32_t to, arrived, sent;
    bool sleepy, wrong;
} flood;

static void *pour(void *arg) {
    flood *f = arg;
    fed_error err = {0};
    for (uint32_t k = 0; k < PIECES; k++) {
        const feddc_head head = {.flags = k % 2 == 0 ? FEDDC_FLOATS : 0, .step = k};
        f->wrong =
            tcp->send(f->o->self, f->to, &head, f->data, PIECE, k, &err) != FED_OK || f->wrong;
    }
    while (!f->wrong && f->arrived + f->sent < 2 * PIECES) {
        feddc_event event;
        if (f->sleepy) {
            fed_sleep_ms(2);
        }
        f->wrong = tcp->wait(f->o->self, LONG_MS, &event, &err) != FED_OK;
        if (event.kind == FEDDC_ARRIVED) {
            f->wrong = f->wrong || event.len != PIECE || event.head.step != f->arrived++ ||
                       memcmp(event.data, f->data, PIECE) != 0;
            tcp->release(f->o->self, &event);
        } else if (event.kind == FEDDC_SENT) {
            f->sent++;
        } else {
            f->wrong = true;
        }
    }
    return NULL;
}

/* Both ranks send everything before they read. small: the kernel's socket buffers in bytes; 0: the
 * default size. */
static void assert_floods_pass(int small) {
    link_group group;
    opener zero, one;
    uint8_t *data = malloc(PIECE);
    pthread_t thread;
    assert_non_null(data);
    for (size_t i = 0; i < PIECE; i++) {
        data[i] = (uint8_t)(i * 31 + (i >> 9));
    }
    link_group_open(&group, tcp, 2);
    if (small != 0) { /* accepted sockets inherit the buffer size */
        const int fd = group.place[0].listener;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    }
    start(&zero, &group.place[0]);
    meet(&group, &zero, &one);
    flood there = {.o = &zero, .data = data, .to = 1, .sleepy = true};
    flood back = {.o = &one, .data = data, .to = 0};
    assert_int_equal(pthread_create(&thread, NULL, pour, &there), 0);
    pour(&back);
    pthread_join(thread, NULL);
    assert_false(there.wrong);
    assert_false(back.wrong);
    close_both(&group, &zero, &one);
    free(data);
}

FED_TEST(floods_in_both_directions_pass) {
    assert_floods_pass(0);
}

FED_TEST(floods_pass_through_tiny_buffers) {
    assert_floods_pass(2048);
}

FED_TEST(rooms_for_messages_are_used_again) {
    half_worker_group g;
    static uint8_t data[20000];
    const void *first = NULL;
    open_half(&g);
    for (int k = 0; k < 5; k++) {
        say_record(g.heads, TCP_INLINE, sizeof data);
        say(g.heads, data, sizeof data);
        const feddc_event event = next(&g.zero);
        assert_int_equal((uintptr_t)event.data % 64, 0);
        assert_true(first == NULL || event.data == first);
        first = event.data;
        tcp->release(g.zero.self, &event);
    }
    close_half(&g);
}

static int mark_of(const opener *o, uint32_t peer, unsigned stream) {
    const tcp_link *link = o->self;
    int service = -1;
    socklen_t len = sizeof service;
    const int fd = link->peer[peer].stream[stream].fd;
    assert_int_equal(getsockopt(fd, IPPROTO_IP, IP_TOS, &service, &len), 0);
    return service;
}

static void assert_marks(bool mark) {
    link_group group;
    opener rank[2];
    link_group_open(&group, tcp, 2);
    for (uint32_t r = 0; r < 2; r++) {
        group.place[r].mark = mark;
        start(&rank[r], &group.place[r]);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_opened(&rank[r]);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(mark_of(&rank[r], 1 - r, TCP_HEADS_STREAM), 0);
        assert_int_equal(mark_of(&rank[r], 1 - r, TCP_FLOATS_STREAM), mark ? FEDNIC_MARKED : 0);
    }
    close_both(&group, &rank[0], &rank[1]);
}

FED_TEST(only_floats_of_a_worker_group_with_nics_are_marked) {
    assert_marks(true);
    assert_marks(false);
}

/* A socket of an IPv6 group is marked for both protocols, because it may carry IPv4. */
FED_TEST(sockets_of_ipv6_are_marked) {
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), service = -1;
    socklen_t len = sizeof service;
    if (fd < 0) {
        skip();
    }
    assert_true(feddc_tcp_mark(fd, true));
    assert_int_equal(getsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &service, &len), 0);
    assert_int_equal(service, FEDNIC_MARKED);
    assert_int_equal(getsockopt(fd, IPPROTO_IP, IP_TOS, &service, &len), 0);
    assert_int_equal(service, FEDNIC_MARKED);
    assert_true(feddc_tcp_mark(fd, false));
    assert_int_equal(getsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &service, &len), 0);
    assert_int_equal(service, 0);
    close(fd);
}

static uint8_t next_record_type(int heads) {
    uint8_t record[TCP_RECORD];
    hear(heads, record, sizeof record);
    return record[0];
}

FED_TEST(with_nics_all_floats_go_apart) {
    static const float x[2] = {1.5f, 2.5f};
    const feddc_head floats = {.flags = FEDDC_FLOATS}, other = {.kind = 2};
    half_worker_group g;
    float got[2];
    fed_error err = {0};
    open_marked(&g, true);
    assert_fed_ok_err(tcp->send(g.zero.self, 1, &other, x, sizeof x, 1, &err));
    assert_fed_ok_err(tcp->send(g.zero.self, 1, &floats, x, sizeof x, 2, &err));
    assert_fed_ok_err(tcp->send(g.zero.self, 1, &floats, NULL, 0, 3, &err));
    assert_int_equal(next_record_type(g.heads), TCP_INLINE);
    hear(g.heads, got, sizeof got);
    assert_int_equal(next_record_type(g.heads), TCP_FLOATS);
    assert_int_equal(next_record_type(g.heads), TCP_INLINE);
    memset(got, 0, sizeof got);
    hear(g.floats, got, sizeof got);
    assert_memory_equal(got, x, sizeof x);
    close_half(&g);
    open_half(&g);
    assert_fed_ok_err(tcp->send(g.zero.self, 1, &floats, x, sizeof x, 1, &err));
    assert_int_equal(next_record_type(g.heads), TCP_INLINE);
    close_half(&g);
}

static void assert_no_place(feddc_place place, fed_status wanted, const char *words) {
    fed_error err = {0};
    void *self = NULL;
    place.patience_ms = SOON_MS;
    assert_fed_status(tcp->open(&place, &self, &err), wanted);
    assert_fed_says(err, words);
    assert_null(self);
}

FED_TEST(what_is_wrong_with_a_place_is_said) {
    static const uint8_t secret[FEDDC_SECRET] = {1};
    const char *address[] = {"127.0.0.1:0", "127.0.0.1:1"};
    feddc_place place = {.size = 2, .address = address, .listener = -1, .secret = secret};
    place.congestion = "no-such";
    assert_no_place(place, FED_EINVAL, "congestion control \"no-such\"");
    place.congestion = "reno";
    assert_no_place(place, FED_EBUSY, "rank 1 at 127.0.0.1:1 did not come within 0.4 s");
    address[0] = "127.0.0.1";
    assert_no_place(place, FED_EINVAL, "is no address");
    address[0] = "[::1]:";
    assert_no_place(place, FED_EINVAL, "is no address");
    address[0] = "192.0.2.1:7000";
    assert_no_place(place, FED_EIO, "can't listen on 192.0.2.1:7000");
    address[1] = NULL;
    assert_no_place(place, FED_EINVAL, "rank 1");
    place.rank = 2;
    assert_no_place(place, FED_EINVAL, "rank 2 of 2");
    place.rank = 0;
    place.secret = NULL;
    assert_no_place(place, FED_EINVAL, "secret");
}

FED_TEST(a_message_has_a_limit_and_a_receiver) {
    half_worker_group g;
    fed_error err = {0};
    const feddc_head head = {0};
    open_half(&g);
    assert_fed_status(tcp->send(g.zero.self, 1, &head, "", (size_t)TCP_MESSAGE_MAX + 1, 1, &err),
                      FED_EINVAL);
    assert_fed_status(tcp->send(g.zero.self, 0, &head, "", 1, 1, &err), FED_EINVAL);
    assert_fed_status(tcp->send(g.zero.self, 2, &head, "", 1, 1, &err), FED_EINVAL);
    close_half(&g);
}

int main(void) {
    alarm(300); /* ends a link that hangs */
    return fed_cases_run(NULL, NULL);
}
