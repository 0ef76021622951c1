/* Peers of the HTTPS adapter: their limits, and how long a connection may be silent. The test
 * sets the clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/http/http_peer.h"

enum { UPLOAD = 64 * 1024, UPLOADS = 4, UPLOADS_OF_ALL = 256, HEAD_MS = 30000 };

/* This clock takes the place of the system's clock. */
static int64_t clock_ms = 1000000;

int64_t fed_clock_unix_ms(void) {
    return clock_ms;
}

int64_t fed_clock_monotonic_ms(void) {
    return clock_ms;
}

int64_t fed_clock_thread_cpu_us(void) {
    return 0;
}

void fed_sleep_ms(int64_t ms) {
    clock_ms += ms;
}

typedef struct world {
    http_peers peers;
    fedserver_wire_totals totals;
} world;

static int setup(void **state) {
    static world w;
    w = (world){.peers = {.totals = &w.totals}};
    http_peers_open(&w.peers, 0, 0);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    http_peers_free(&((world *)*state)->peers);
    return 0;
}

static http_peer *connect_as(world *w, fedserver_listener kind, uint32_t who) {
    uint8_t key[HTTP_LIMITS_KEY];
    http_peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    fed_sha256(&who, sizeof who, key);
    p->peers = &w->peers;
    p->kind = kind;
    p->spoke = true;
    p->wire.fd = -1;
    w->totals.connections++;
    p->account = http_limits_enter(&w->peers.limits[kind], key, clock_ms);
    return p;
}

static void upload(http_peer *p, uint64_t size) {
    assert_int_equal(http_peer_ask(p, size), 0);
    http_peer_body_begins(p, size);
}

/* If uploads that ended still counted, a device would be refused after 4 and all devices after
 * 256. */
static void uploads_that_have_ended_are_in_nobodys_way(void **state) {
    enum { DEVICES = 3 };
    world *w = *state;
    http_peer *device[DEVICES];
    for (uint32_t k = 0; k < DEVICES; k++) {
        device[k] = connect_as(w, FEDSERVER_DEVICES, k);
    }
    for (int turn = 0; turn < UPLOADS_OF_ALL; turn++) {
        for (int k = 0; k < DEVICES; k++) {
            upload(device[k], UPLOAD);
            http_peer_body_ends(device[k], UPLOAD);
        }
    }
    for (int k = 0; k < DEVICES; k++) {
        assert_int_equal(device[k]->account->uploads, 0);
        http_peer_free(device[k]);
    }
    assert_int_equal(w->peers.all.crowd.uploads, 0);
}

static void a_device_has_four_uploads_at_a_time_on_all_its_connections(void **state) {
    world *w = *state;
    http_peer *one = connect_as(w, FEDSERVER_DEVICES, 1);
    http_peer *same = connect_as(w, FEDSERVER_DEVICES, 1);
    http_peer *other = connect_as(w, FEDSERVER_DEVICES, 2);
    for (int k = 0; k < UPLOADS; k++) {
        upload(k % 2 == 0 ? one : same, UPLOAD);
    }
    assert_int_equal(http_peer_ask(one, UPLOAD), 1);
    assert_int_equal(http_peer_ask(same, UPLOAD), 1);
    assert_int_equal(http_peer_ask(one, UPLOAD - 1), 0); /* a body this small is no upload */
    assert_int_equal(http_peer_ask(other, UPLOAD), 0);
    http_peer_body_ends(one, UPLOAD);
    assert_int_equal(http_peer_ask(same, UPLOAD), 0);
    http_peer_free(one);
    http_peer_free(same);
    http_peer_free(other);
}

static void all_devices_together_have_256_uploads_at_a_time(void **state) {
    world *w = *state;
    http_peer *device[UPLOADS_OF_ALL + 1];
    for (uint32_t k = 0; k <= UPLOADS_OF_ALL; k++) {
        device[k] = connect_as(w, FEDSERVER_DEVICES, k);
    }
    for (int k = 0; k < UPLOADS_OF_ALL; k++) {
        upload(device[k], UPLOAD);
    }
    http_peer *late = device[UPLOADS_OF_ALL];
    http_peer *page = connect_as(w, FEDSERVER_FRONT, 7);
    assert_int_equal(http_peer_ask(late, UPLOAD), 1);
    assert_int_equal(http_peer_ask(page, UPLOAD), 1);
    assert_int_equal(http_peer_ask(late, UPLOAD - 1), 0);
    http_peer_body_ends(device[9], UPLOAD);
    upload(late, UPLOAD);
    assert_int_equal(http_peer_ask(device[9], UPLOAD), 1);
    for (int k = 0; k <= UPLOADS_OF_ALL; k++) {
        http_peer_free(device[k]);
    }
    http_peer_free(page);
}

static void small_bodies_are_not_counted(void **state) {
    world *w = *state;
    http_peer *p = connect_as(w, FEDSERVER_DEVICES, 1);
    for (int k = 0; k < 10; k++) {
        upload(p, UPLOAD - 1);
    }
    assert_int_equal(p->account->uploads, 0);
    for (int k = 0; k < 10; k++) {
        http_peer_body_ends(p, UPLOAD - 1);
        http_peer_body_ends(p, 0);
    }
    assert_int_equal(p->account->uploads, 0);
    assert_int_equal(w->peers.all.crowd.uploads, 0);
    http_peer_free(p);
}

static void bodies_and_answers_are_paid_for_by_their_peer(void **state) {
    enum { BURST = 256000000, PER_S = 32000000 };
    world *w = *state;
    http_peer *other = connect_as(w, FEDSERVER_DEVICES, 2);
    for (int answers = 0; answers < 2; answers++) {
        http_peer *p = connect_as(w, FEDSERVER_DEVICES, 10 + (uint32_t)answers);
        if (answers == 1) {
            assert_int_equal(http_peer_answered(p, false, 200, BURST + 3 * PER_S), 0);
        } else {
            http_peer_body_begins(p, BURST + 3 * PER_S);
        }
        assert_int_equal(http_peer_ask(p, 0), 4);
        assert_int_equal(http_peer_ask(other, 0), 0);
        clock_ms += 2900;
        assert_int_not_equal(http_peer_ask(p, 0), 0);
        clock_ms += 200;
        assert_int_equal(http_peer_ask(p, 0), 0);
        http_peer_free(p);
    }
    http_peer_free(other);
}

static void a_rate_holds_for_each_device_and_one_for_all(void **state) {
    enum { RATE = 100, DEVICE_BURST = 1000, BURST_OF_ALL = 25600 };
    world *w = *state;
    int let_in = 0;
    for (uint32_t k = 0; k < 30; k++) {
        http_peer *p = connect_as(w, FEDSERVER_DEVICES, k);
        int own = 0;
        while (http_peer_ask(p, 0) == 0) {
            own++;
        }
        assert_in_range(own, 0, DEVICE_BURST);
        assert_true(own == DEVICE_BURST || let_in + own == BURST_OF_ALL);
        let_in += own;
        http_peer_free(p);
    }
    assert_int_equal(let_in, BURST_OF_ALL);
}

/* At the front, an address that guesses tokens may try ten times at once, then once in six
 * seconds. */
static void a_refused_trial_counts_at_the_front_alone(void **state) {
    static const struct {
        fedserver_listener kind;
        bool trial;
        int status;
        bool counts;
    } cases[] = {
        {FEDSERVER_FRONT, true, 401, true},    {FEDSERVER_FRONT, true, 403, true},
        {FEDSERVER_FRONT, true, 200, false},   {FEDSERVER_FRONT, true, 404, false},
        {FEDSERVER_FRONT, false, 401, false},  {FEDSERVER_FRONT, false, 403, false},
        {FEDSERVER_DEVICES, true, 401, false}, {FEDSERVER_DEVICES, true, 403, false},
    };
    world *w = *state;
    for (uint32_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        http_peer *p = connect_as(w, cases[k].kind, k);
        for (int times = 0; times < 10; times++) {
            assert_int_equal(http_peer_answered(p, cases[k].trial, cases[k].status, 100), 0);
        }
        const uint32_t wait_s = http_peer_answered(p, cases[k].trial, cases[k].status, 100);
        assert_int_equal(wait_s, cases[k].counts ? 7 : 0);
        if (cases[k].counts) {
            clock_ms += 5900;
            assert_int_equal(http_peer_answered(p, true, cases[k].status, 100), 0);
            assert_int_not_equal(http_peer_answered(p, true, cases[k].status, 100), 0);
            assert_int_equal(http_peer_answered(p, true, 200, 100), 0);
        }
        http_peer_free(p);
    }
}

static uint32_t admitted(world *w, http_handshake kind, uint8_t last) {
    const http_address from = http_address_v4((const uint8_t[4]){192, 0, 2, last});
    uint32_t count = 0;
    while (http_peers_admit(&w->peers, kind, &from)) {
        count++;
    }
    return count;
}

static void each_kind_of_handshake_has_a_budget_for_an_address_and_for_all(void **state) {
    static const uint32_t burst[HTTP_HANDSHAKES] = {2000, 4000, 2000};
    world *w = *state;
    for (int kind = 0; kind < HTTP_HANDSHAKES; kind++) {
        for (uint8_t who = 1; who <= 3; who++) { /* two addresses use up the budget of all */
            assert_int_equal(admitted(w, (http_handshake)kind, who), who <= 2 ? burst[kind] : 0);
        }
    }
    clock_ms += 1000;
    assert_int_equal(admitted(w, HTTP_HANDSHAKE_FULL, 1), 200);
    assert_int_equal(admitted(w, HTTP_HANDSHAKE_FULL, 2), 200);
    assert_int_equal(admitted(w, HTTP_HANDSHAKE_FULL, 3), 100);
    for (size_t kind = 0; kind < HTTP_HANDSHAKES; kind++) {
        assert_int_equal(w->peers.handshakes_of_all[kind].count, 0);
    }
}

static void addresses_that_came_once_are_forgotten(void **state) {
    world *w = *state;
    for (int kind = 0; kind < HTTP_HANDSHAKES; kind++) {
        for (uint32_t who = 0; who < 1000; who++) {
            const http_address from =
                http_address_v4((const uint8_t[4]){10, 0, (uint8_t)(who / 250), (uint8_t)who});
            clock_ms += 100;
            assert_true(http_peers_admit(&w->peers, (http_handshake)kind, &from));
        }
        assert_in_range(w->peers.handshakes[kind].count, 1, 128);
    }
}

static void other_coordinators_budget_does_not_follow_the_devices_rate(void **state) {
    (void)state;
    world w = {.peers = {.oldest = NULL}};
    http_peers_open(&w.peers, 1, 0);
    assert_int_equal(admitted(&w, HTTP_HANDSHAKE_FULL, 1), 20);
    assert_int_equal(admitted(&w, HTTP_HANDSHAKE_TICKET, 1), 40);
    assert_int_equal(admitted(&w, HTTP_HANDSHAKE_LINK, 1), 2000);
    http_peers_free(&w.peers);
}

static void a_failed_handshake_is_counted_by_its_reason(void **state) {
    world *w = *state;
    for (int reason = 0; reason < 4; reason++) {
        for (int k = 0; k <= reason; k++) {
            http_peer *p = connect_as(w, FEDSERVER_DEVICES, 1);
            p->spoke = reason == 3;
            p->over_budget = reason == FEDSERVER_HANDSHAKE_BUDGET;
            p->gate.refused = reason == FEDSERVER_HANDSHAKE_CERTIFICATE;
            http_peer_free(p);
        }
    }
    assert_int_equal(w->totals.handshakes[FEDSERVER_HANDSHAKE_BUDGET], 1);
    assert_int_equal(w->totals.handshakes[FEDSERVER_HANDSHAKE_CERTIFICATE], 2);
    assert_int_equal(w->totals.handshakes[FEDSERVER_HANDSHAKE_UNFINISHED], 3);
}

static void a_connection_that_ends_is_no_longer_counted(void **state) {
    enum { CONNECTIONS = 16 };
    world *w = *state;
    http_peer *p[CONNECTIONS + 1];
    for (int turn = 0; turn < 3; turn++) {
        for (int k = 0; k <= CONNECTIONS; k++) {
            p[k] = connect_as(w, FEDSERVER_DEVICES, 1);
            assert_int_equal(http_peer_ask(p[k], 0), k < CONNECTIONS ? 0 : 1);
        }
        for (int k = 0; k <= CONNECTIONS; k++) {
            http_peer_free(p[k]);
        }
    }
}

static void a_certificate_holds_until_its_last_second(void **state) {
    world *w = *state;
    http_peer *p = connect_as(w, FEDSERVER_DEVICES, 1);
    p->identity = (http_tls_identity){.known = true, .expires_s = 5000};
    assert_true(http_peer_valid(p, NULL, 4999));
    assert_false(http_peer_valid(p, NULL, 5000));
    http_peer_free(p);
    p = connect_as(w, FEDSERVER_FRONT, 1);
    assert_true(http_peer_valid(p, NULL, INT64_MAX));
    http_peer_free(p);
}

typedef struct line {
    http_peer *peer;
    int far_end;
} line;

static line connect_line(world *w, uint32_t who) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    line l = {.peer = connect_as(w, FEDSERVER_DEVICES, who), .far_end = ends[1]};
    l.peer->wire.fd = ends[0];
    http_peer_owes(l.peer);
    return l;
}

static bool was_cut(const line *l) {
    char byte;
    return recv(l->far_end, &byte, 1, 0) == 0;
}

static void hang_up(line *l) {
    close(l->peer->wire.fd);
    close(l->far_end);
    http_peer_free(l->peer);
}

/* One connection has sent nothing, one has sent a request's head, and one has sent nothing since
 * its last answer. */
static void who_owes_a_head_for_thirty_seconds_is_cut_off(void **state) {
    enum { ANSWERED, SILENT, SPOKE, LATE, LINES };
    world *w = *state;
    line l[LINES];
    for (uint32_t k = 0; k < LATE; k++) {
        l[k] = connect_line(w, k);
    }
    http_peer_settled(l[SPOKE].peer);
    http_peer_settled(l[SPOKE].peer);
    clock_ms += HEAD_MS - 1;
    http_peer_owes(l[ANSWERED].peer);
    l[LATE] = connect_line(w, LATE);
    http_peers_cut_silent(&w->peers);
    assert_false(was_cut(&l[SILENT]));
    clock_ms += 1;
    http_peers_cut_silent(&w->peers);
    assert_true(was_cut(&l[SILENT]));
    assert_false(was_cut(&l[SPOKE]) || was_cut(&l[ANSWERED]) || was_cut(&l[LATE]));
    clock_ms += HEAD_MS - 1;
    http_peers_cut_silent(&w->peers);
    assert_true(was_cut(&l[ANSWERED]) && was_cut(&l[LATE]));
    assert_false(was_cut(&l[SPOKE]));
    for (int k = 0; k < LINES; k++) {
        hang_up(&l[k]);
    }
    assert_null(w->peers.oldest);
    assert_null(w->peers.newest);
}

static void who_leaves_is_no_longer_waited_for(void **state) {
    enum { LINES = 5 };
    world *w = *state;
    for (int first = 0; first < LINES; first++) {
        line l[LINES];
        for (uint32_t k = 0; k < LINES; k++) {
            l[k] = connect_line(w, k);
        }
        hang_up(&l[first]);
        int found = 0;
        const http_peer *before = NULL;
        for (const http_peer *p = w->peers.oldest; p != NULL; p = p->after) {
            assert_ptr_equal(p->before, before);
            before = p;
            found++;
        }
        assert_ptr_equal(w->peers.newest, before);
        assert_int_equal(found, LINES - 1);
        for (int k = 0; k < LINES; k++) {
            if (k != first) {
                hang_up(&l[k]);
            }
        }
    }
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(uploads_that_have_ended_are_in_nobodys_way),
        WITH(a_device_has_four_uploads_at_a_time_on_all_its_connections),
        WITH(all_devices_together_have_256_uploads_at_a_time),
        WITH(small_bodies_are_not_counted),
        WITH(bodies_and_answers_are_paid_for_by_their_peer),
        WITH(a_rate_holds_for_each_device_and_one_for_all),
        WITH(a_refused_trial_counts_at_the_front_alone),
        WITH(each_kind_of_handshake_has_a_budget_for_an_address_and_for_all),
        WITH(addresses_that_came_once_are_forgotten),
        WITH(other_coordinators_budget_does_not_follow_the_devices_rate),
        WITH(a_failed_handshake_is_counted_by_its_reason),
        WITH(a_connection_that_ends_is_no_longer_counted),
        WITH(a_certificate_holds_until_its_last_second),
        WITH(who_owes_a_head_for_thirty_seconds_is_cut_off),
        WITH(who_leaves_is_no_longer_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
