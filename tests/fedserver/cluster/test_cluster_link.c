/* A link between two coordinators over real sockets: who may open one, and what ends one. The
 * test sets the clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_curl.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/cluster/cluster_link.h"
#include "fedserver/cluster/cluster_tls.h"

typedef struct end {
    cluster_link *link;
    fed_status status;
    fed_error err;
    unsigned frames;
    uint64_t id;
    size_t body_len;
    uint8_t last;
    uint64_t moved;
} end;

typedef struct world {
    fed_pem ca_key, ca;
    fed_identity server, other_server, device;
    gnutls_certificate_credentials_t credentials[3];
    int64_t now_ms;
    end ends[2]; /* the caller is number 0 */
} world;

static void load(world *w, size_t k, const fed_identity *who) {
    const gnutls_datum_t ca = {(unsigned char *)w->ca.text, (unsigned)strlen(w->ca.text)};
    const gnutls_datum_t cert = {(unsigned char *)(uintptr_t)who->cert.text,
                                 (unsigned)strlen(who->cert.text)};
    const gnutls_datum_t key = {(unsigned char *)(uintptr_t)who->key.text,
                                (unsigned)strlen(who->key.text)};
    assert_int_equal(gnutls_certificate_allocate_credentials(&w->credentials[k]), 0);
    assert_true(gnutls_certificate_set_x509_trust_mem(w->credentials[k], &ca, GNUTLS_X509_FMT_PEM) >
                0);
    assert_int_equal(
        gnutls_certificate_set_x509_key_mem(w->credentials[k], &cert, &key, GNUTLS_X509_FMT_PEM),
        0);
}

static int setup(void **state) {
    fed_error err = {0};
    const int64_t now = time(NULL);
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_fed_ok_err(fed_key_new(&w->ca_key, &err));
    assert_fed_ok_err(fed_ca_new(&w->ca_key, "CA", now - 1000, now + 86400, &w->ca, &err));
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_SERVER, now - 60, now + 3600, &w->server);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_SERVER, now - 60, now + 3600, &w->other_server);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - 60, now + 3600, &w->device);
    load(w, 0, &w->server);
    load(w, 1, &w->other_server);
    load(w, 2, &w->device);
    w->now_ms = 1000000;
    *state = w;
    return 0;
}

static void close_ends(world *w) {
    for (size_t k = 0; k < 2; k++) {
        cluster_link_free(w->ends[k].link);
        w->ends[k].link = NULL;
    }
}

static int teardown(void **state) {
    world *w = *state;
    close_ends(w);
    for (size_t k = 0; k < 3; k++) {
        gnutls_certificate_free_credentials(w->credentials[k]);
    }
    free(w);
    return 0;
}

static void sockets(int fds[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void open_end(world *w, size_t k, int fd, size_t credentials, const fed_identity *who) {
    fed_error err = {0};
    const cluster_keys keys = {w->credentials[credentials], who->cert.text};
    assert_fed_ok_err(cluster_link_new(fd, k == 0, &keys, w->now_ms, &w->ends[k].link, &err));
    w->ends[k].status = FED_OK;
}

static void open_both(world *w) {
    int fds[2];
    sockets(fds);
    open_end(w, 0, fds[0], 0, &w->server);
    open_end(w, 1, fds[1], 0, &w->server);
}

static fed_status take(void *user, cluster_link *link, cluster_frame *frame, fed_error *err) {
    (void)link, (void)err;
    end *e = user;
    e->frames++;
    e->id = frame->id;
    e->body_len = frame->body.len;
    e->last = frame->body.len > 0 ? frame->body.data[frame->body.len - 1] : 0;
    return FED_OK;
}

static void turn(world *w, size_t k) {
    end *e = &w->ends[k];
    if (e->link != NULL && e->status == FED_OK) {
        e->status = cluster_link_run(e->link, w->now_ms, take, e, &e->moved, &e->err);
    }
}

static void turn_both(world *w) {
    uint64_t before = UINT64_MAX;
    for (int k = 0; k < 10000 && before != w->ends[0].moved + w->ends[1].moved; k++) {
        before = w->ends[0].moved + w->ends[1].moved;
        for (int again = 0; again < 4; again++) {
            turn(w, 0);
            turn(w, 1);
        }
    }
}

static void send_body(world *w, size_t k, uint64_t id, const uint8_t *bytes, size_t len) {
    fed_error err = {0};
    assert_fed_ok_err(
        cluster_link_send(w->ends[k].link, CLUSTER_REQUEST, id, NULL, bytes, len, NULL, &err));
}

FED_TEST_WITH(two_that_hold_the_coordinators_key_are_linked, world *w) {
    open_both(w);
    turn_both(w);
    assert_true(cluster_link_up(w->ends[0].link) && cluster_link_up(w->ends[1].link));
    send_body(w, 0, 7, (const uint8_t *)"abc", 3);
    turn_both(w);
    assert_int_equal(w->ends[1].frames, 1);
    assert_int_equal(w->ends[1].id, 7);
    assert_int_equal(w->ends[1].last, 'c');
}

/* Check that a link is refused if one end, first the caller and then the other, shows this
 * certificate instead of the coordinator's. */
static void assert_refused(world *w, size_t credentials) {
    for (size_t stranger = 0; stranger < 2; stranger++) {
        int fds[2];
        memset(w->ends, 0, sizeof w->ends);
        sockets(fds);
        open_end(w, stranger, fds[stranger], credentials, &w->server);
        open_end(w, 1 - stranger, fds[1 - stranger], 0, &w->server);
        turn_both(w);
        assert_fed_status(w->ends[1 - stranger].status, FED_EAUTH);
        assert_fed_says(w->ends[1 - stranger].err, "does not hold this coordinator's key");
        assert_false(cluster_link_up(w->ends[1 - stranger].link));
        assert_true(w->ends[stranger].status != FED_OK);
        close_ends(w);
    }
}

FED_TEST_WITH(a_devices_certificate_opens_no_link, world *w) {
    assert_refused(w, 2);
}

FED_TEST_WITH(another_servers_certificate_of_our_ca_opens_no_link, world *w) {
    assert_refused(w, 1);
}

FED_TEST_WITH(a_caller_without_a_certificate_gets_no_link, world *w) {
    gnutls_certificate_credentials_t none;
    int fds[2];
    sockets(fds);
    assert_int_equal(gnutls_certificate_allocate_credentials(&none), 0);
    fed_error err = {0};
    const cluster_keys keys = {none, w->server.cert.text};
    assert_fed_ok_err(cluster_link_new(fds[0], true, &keys, w->now_ms, &w->ends[0].link, &err));
    open_end(w, 1, fds[1], 0, &w->server);
    turn_both(w);
    assert_true(w->ends[1].status != FED_OK);
    assert_false(cluster_link_up(w->ends[1].link));
    close_ends(w);
    gnutls_certificate_free_credentials(none);
}

FED_TEST_WITH(a_silent_peer_is_given_up_after_four_seconds, world *w) {
    open_both(w);
    turn_both(w);
    w->now_ms += CLUSTER_SILENT_MS - 1;
    turn(w, 0);
    assert_fed_ok(w->ends[0].status);
    w->now_ms += 1;
    turn(w, 0);
    assert_fed_status(w->ends[0].status, FED_ENET);
    assert_fed_says(w->ends[0].err, "silent");
}

FED_TEST_WITH(a_peer_that_never_shakes_hands_is_given_up_too, world *w) {
    int fds[2];
    sockets(fds);
    open_end(w, 1, fds[1], 0, &w->server);
    w->now_ms += CLUSTER_SILENT_MS;
    turn(w, 1);
    assert_fed_status(w->ends[1].status, FED_ENET);
    close(fds[0]);
}

FED_TEST_WITH(heartbeats_keep_an_idle_link_up, world *w) {
    open_both(w);
    turn_both(w);
    for (int second = 0; second < 20; second++) {
        assert_true(cluster_link_next_ms(w->ends[0].link) <= w->now_ms + CLUSTER_HEARTBEAT_MS);
        w->now_ms += CLUSTER_HEARTBEAT_MS;
        turn_both(w);
        turn_both(w);
    }
    assert_fed_ok(w->ends[0].status);
    assert_fed_ok(w->ends[1].status);
    assert_int_equal(w->ends[0].frames + w->ends[1].frames, 0);
}

FED_TEST_WITH(a_number_is_heard_with_the_next_turn, world *w) {
    open_both(w);
    for (uint64_t number = 7; number < UINT64_MAX / 9; number *= 9) {
        cluster_link_announce(w->ends[1].link, number);
        turn_both(w);
        assert_true(cluster_link_heard(w->ends[0].link) == number);
    }
    assert_true(cluster_link_heard(w->ends[1].link) == 0);
    assert_int_equal(w->ends[0].frames, 0);
}

FED_TEST_WITH(a_line_cut_in_the_middle_of_a_frame_delivers_nothing, world *w) {
    enum { LEN = 3000000 };
    uint8_t *body = calloc(1, LEN);
    assert_non_null(body);
    open_both(w);
    turn_both(w);
    send_body(w, 0, 1, body, LEN);
    turn(w, 0);
    turn(w, 1);
    cluster_link_free(w->ends[0].link);
    w->ends[0].link = NULL;
    for (int k = 0; k < 1000 && w->ends[1].status == FED_OK; k++) {
        turn(w, 1);
    }
    assert_fed_status(w->ends[1].status, FED_ENET);
    assert_int_equal(w->ends[1].frames, 0);
    free(body);
}

/* Shake hands as the caller, then send these bytes. */
static void say_raw(world *w, const fed_writer *words) {
    int fds[2];
    cluster_tls *tls = NULL;
    fed_error err = {0};
    size_t sent = 0;
    fed_status status = FED_EBUSY;
    sockets(fds);
    open_end(w, 1, fds[1], 0, &w->server);
    assert_fed_ok_err(
        cluster_tls_open(fds[0], true, w->credentials[0], w->server.cert.text, &tls, &err));
    for (int k = 0; k < 100 && status == FED_EBUSY; k++) {
        status = cluster_tls_handshake(tls, &err);
        turn(w, 1);
    }
    assert_fed_ok_err(status);
    assert_fed_ok_err(cluster_tls_send(tls, words->data, words->len, &sent, &err));
    assert_int_equal(sent, words->len);
    for (int k = 0; k < 10; k++) {
        turn(w, 1);
    }
    cluster_tls_close(tls);
    close(fds[0]);
}

FED_TEST_WITH(a_huge_frame_ends_the_link, world *w) {
    fed_writer words;
    fed_writer_growing(&words);
    cluster_frame_write(&words, CLUSTER_HELLO, CLUSTER_PROTOCOL, NULL, 0);
    fed_write_u8(&words, CLUSTER_REQUEST);
    fed_write_u32(&words, UINT32_MAX);
    fed_write_u32(&words, UINT32_MAX);
    fed_write_u64(&words, 1);
    say_raw(w, &words);
    assert_fed_status(w->ends[1].status, FED_EFORMAT);
    assert_int_equal(w->ends[1].frames, 0);
    fed_writer_free(&words);
}

FED_TEST_WITH(a_release_with_another_link_is_told_so, world *w) {
    fed_writer words;
    fed_writer_growing(&words);
    cluster_frame_write(&words, CLUSTER_HELLO, CLUSTER_PROTOCOL + 1, NULL, 0);
    say_raw(w, &words);
    assert_fed_status(w->ends[1].status, FED_EVERSION);
    assert_fed_says(w->ends[1].err, "docs/link.md");
    fed_writer_free(&words);
}

FED_TEST_WITH(bodies_of_every_size_arrive_in_order, world *w) {
    static const size_t sizes[] = {0, 1, 4096, 4097, 16384, 16385, 1000000, 2, 5000000, 3};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    open_both(w);
    turn_both(w);
    for (size_t k = 0; k < COUNT; k++) {
        fed_writer bytes;
        fed_error err = {0};
        fed_writer_growing(&bytes);
        for (size_t at = 0; at < sizes[k]; at++) {
            fed_write_u8(&bytes, (uint8_t)(at * 7 + k));
        }
        const uint8_t last = sizes[k] > 0 ? bytes.data[sizes[k] - 1] : 0;
        fedserver_blob *blob = fedserver_blob_new(&bytes);
        size_t len = 0;
        const uint8_t *data = fedserver_blob_data(blob, &len);
        assert_fed_ok_err(cluster_link_send(w->ends[0].link, CLUSTER_REQUEST, k, NULL, data, len,
                                            k % 2 == 0 ? blob : NULL, &err));
        fedserver_blob_free(blob); /* the link holds a reference or a copy of its own */
        turn_both(w);
        assert_int_equal(w->ends[1].frames, k + 1);
        assert_int_equal(w->ends[1].id, k);
        assert_int_equal(w->ends[1].body_len, sizes[k]);
        assert_int_equal(w->ends[1].last, last);
    }
    assert_false(cluster_link_writes(w->ends[0].link));
}

FED_TEST_WITH(a_line_that_is_too_slow_takes_no_more_requests, world *w) {
    enum { BODY = 1 << 20, BODIES = CLUSTER_WAITING_MOST / BODY };
    uint8_t *bytes = calloc(1, BODY);
    fed_error err = {0};
    fed_status status = FED_OK;
    unsigned sent = 0;
    assert_non_null(bytes);
    open_both(w);
    turn_both(w);
    cluster_link *link = w->ends[0].link;
    for (; sent <= BODIES && status == FED_OK; sent += status == FED_OK) {
        status = cluster_link_send(link, CLUSTER_REQUEST, sent, NULL, bytes, BODY, NULL, &err);
    }
    assert_fed_status(status, FED_EBUSY);
    assert_in_range(sent, BODIES - 1, BODIES);
    assert_fed_ok_err(cluster_link_send(link, CLUSTER_CANCEL, 1, NULL, NULL, 0, NULL, &err));
    turn_both(w);
    assert_int_equal(w->ends[1].frames, sent + 1);
    send_body(w, 0, 2, bytes, BODY);
    turn_both(w);
    assert_int_equal(w->ends[1].frames, sent + 2);
    assert_int_equal(w->ends[0].status, FED_OK);
    free(bytes);
}

FED_TEST_WITH(an_id_names_one_request_only, world *w) {
    cluster_link *link;
    fed_error err = {0};
    uint64_t first, second, third;
    int a, b, c;
    open_both(w);
    link = w->ends[0].link;
    assert_fed_ok_err(cluster_link_claim(link, &a, &first, &err));
    assert_fed_ok_err(cluster_link_claim(link, &b, &second, &err));
    assert_ptr_equal(cluster_link_owner(link, first), &a);
    cluster_link_disown(link, first);
    cluster_link_disown(link, first);
    assert_null(cluster_link_owner(link, first));
    assert_fed_ok_err(cluster_link_claim(link, &c, &third, &err));
    assert_int_equal((uint32_t)third, (uint32_t)first); /* the slot number is used again */
    assert_true(third != first);
    assert_null(cluster_link_owner(link, first)); /* a late answer to an old ID has no owner */
    assert_ptr_equal(cluster_link_owner(link, third), &c);
    assert_ptr_equal(cluster_link_owner(link, second), &b);
}

FED_TEST_WITH(a_peers_number_must_be_free_and_small, world *w) {
    fed_error err = {0};
    int a;
    open_both(w);
    assert_fed_ok_err(cluster_link_own(w->ends[1].link, 5, &a, &err));
    assert_fed_status(cluster_link_own(w->ends[1].link, 5, &a, &err), FED_EFORMAT);
    assert_fed_status(cluster_link_own(w->ends[1].link, (uint64_t)1 << 32 | 5, &a, &err),
                      FED_EFORMAT);
    assert_fed_status(cluster_link_own(w->ends[1].link, UINT32_MAX, &a, &err), FED_EFORMAT);
    cluster_link_disown(w->ends[1].link, 5);
    assert_fed_ok_err(cluster_link_own(w->ends[1].link, (uint64_t)1 << 32 | 5, &a, &err));
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
