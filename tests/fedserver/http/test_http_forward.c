/* Two HTTPS adapters, a follower's and its leader's, each with a fake coordinator that does
 * what a request's path says. Requests that reach the follower are answered by the leader. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "http_world.h"

typedef struct pair {
    world *leader, *follower;
    char address[32];
    bool leader_runs, follower_runs;
} pair;

static int link_socket(uint16_t *port) {
    int fd = -1;
    fed_error err = {0};
    *port = 0;
    assert_fed_ok_err(fedserver_http_listen("127.0.0.1", port, &fd, &err));
    return fd;
}

static int setup_pair(void **state) {
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(setup((void **)&p->leader), 0);
    p->follower = calloc(1, sizeof *p->follower);
    assert_non_null(p->follower);
    world *f = p->follower;
    memcpy(f->server.directory, p->leader->server.directory, sizeof f->server.directory);
    f->server.big = p->leader->server.big;
    f->ca = p->leader->ca;
    f->device = p->leader->device;
    *state = p;
    return 0;
}

static void start_leader(pair *p) {
    uint16_t port;
    p->leader->options.cluster_socket = link_socket(&port);
    snprintf(p->address, sizeof p->address, "127.0.0.1:%u", port);
    start(p->leader);
    p->leader_runs = true;
}

static void start_follower(pair *p, const char *leader) {
    uint16_t port;
    p->follower->options.cluster_socket = link_socket(&port);
    atomic_store(&p->follower->server.follows, true);
    atomic_store(&p->follower->server.leader, leader);
    start(p->follower);
    p->follower_runs = true;
}

static void start_both(pair *p) {
    start_leader(p);
    start_follower(p, p->address);
    for (int k = 0; k < 10000 && atomic_load(&p->leader->server.followers) == 0; k++) {
        fed_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&p->leader->server.followers), 1);
}

static int setup_both(void **state) {
    setup_pair(state);
    start_both(*state);
    return 0;
}

static int teardown_pair(void **state) {
    pair *p = *state;
    if (p->follower_runs) {
        finish(p->follower);
    }
    if (p->leader_runs) {
        finish(p->leader);
    }
    free(p->follower);
    teardown((void **)&p->leader);
    free(p);
    return 0;
}

static CURL *device(const pair *p, const char *path) {
    return client(p->follower, &p->follower->device, p->follower->devices_port, path);
}

/* Send a device's request to the follower: a POST of `body`, or a GET if body is NULL. */
static fed_reply ask_device(const pair *p, const char *path, const char *body) {
    CURL *curl = device(p, path);
    if (body != NULL) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    }
    fed_reply r = fed_curl_ask(curl);
    curl_easy_cleanup(curl);
    return r;
}

typedef struct asking {
    CURL *curl;
    fed_reply reply;
    pthread_t thread;
} asking;

static void *ask_in_thread(void *user) {
    asking *a = user;
    a->reply = fed_curl_ask(a->curl);
    return NULL;
}

static void begin_asking(asking *a, CURL *curl) {
    a->curl = curl;
    assert_int_equal(pthread_create(&a->thread, NULL, ask_in_thread, a), 0);
}

static void start_and_hold(pair *p, asking *pending) {
    start_both(p);
    begin_asking(pending, device(p, "/hold?50000"));
    wait_for(&p->leader->server.waiting, 1);
}

static void end_asking(asking *a, long status, const char *part) {
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    fed_reply_assert(&a->reply, status, part);
    curl_easy_cleanup(a->curl);
}

static void a_start_that_fails_closes_the_socket_for_links(void **state) {
    pair *p = *state;
    uint16_t port;
    fedserver_http_options *o = &p->leader->options;
    o->proxies = "no address";
    o->cluster_socket = link_socket(&port);
    start(p->leader);
    join(p->leader);
    assert_fed_status(p->leader->status, FED_EINVAL);
    assert_int_equal(fcntl(o->cluster_socket, F_GETFD), -1);
}

static void the_leader_answers_what_arrives_at_a_follower(void **state) {
    pair *p = *state;
    char hex[FED_SHA256_HEX];
    fed_reply r = ask_device(p, "/echo?a=1", "some body");
    assert_header(&r, "Content-Type: application/json");
    fed_reply_assert(&r, 200, "POST /echo?a=1 - 9 some body");

    r = ask_once(p->leader, &p->leader->device, p->leader->devices_port, "/who", NULL);
    snprintf(hex, sizeof hex, "%s", fed_reply_text(&r.body));
    fed_reply_free(&r);
    r = ask_device(p, "/who", NULL);
    fed_reply_assert(&r, 200, hex);
    assert_int_equal(atomic_load(&p->follower->server.handled), 0);
    assert_int_equal(atomic_load(&p->leader->server.handled), 3);
}

static void ranges_tags_and_retries_arrive_as_headers(void **state) {
    pair *p = *state;
    CURL *curl = device(p, "/range");
    fed_curl_header(curl, "Range: bytes=5-6");
    fed_curl_header(curl, "If-Range: \"name\"");
    fed_reply r = fed_curl_ask(curl);
    assert_header(&r, "ETag: \"name\"");
    assert_header(&r, "Content-Range: bytes 5-6/7");
    fed_reply_assert(&r, 206, "bytes=5-6 \"name\"");
    fed_curl_close(curl);
    r = ask_device(p, "/later", NULL);
    assert_header(&r, "Retry-After: 7");
    fed_reply_assert(&r, 503, "");
}

static void large_bodies_pass_in_both_directions(void **state) {
    pair *p = *state;
    CURL *curl = device(p, "/echo");
    assert_echoes_large(curl, 3);
    curl_easy_cleanup(curl);
}

/* Without this limit, a device could use all memory by announcing a huge body. */
static void a_follower_knows_how_large_an_update_may_be(void **state) {
    pair *p = *state;
    char answer[2000];
    atomic_store(&p->leader->server.limit, 100);
    start_both(p);
    for (int k = 0; k < 10000 && atomic_load(&p->follower->server.heard_limit) == 0; k++) {
        fed_sleep_ms(1);
    }
    CURL *curl = fed_curl_raw(&p->follower->ca, &p->follower->device, p->follower->devices_port);
    fed_curl_send(curl, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 268435456\r\n\r\n");
    fed_curl_receive(curl, "busy", answer, sizeof answer);
    assert_non_null(strstr(answer, "503"));
    curl_easy_cleanup(curl);
    fed_reply r = ask_device(p, "/echo", "an update");
    fed_reply_assert(&r, 200, "an update");
    assert_int_equal(atomic_load(&p->leader->server.handled), 1);
}

static void answers_come_in_the_order_in_which_they_are_ready(void **state) {
    pair *p = *state;
    asking pending;
    start_and_hold(p, &pending);
    fed_reply r = ask_device(p, "/echo", NULL);
    fed_reply_assert(&r, 200, "GET /echo?");
    atomic_store(&p->leader->server.released, true);
    atomic_fetch_add(&p->leader->server.epoch, 1);
    end_asking(&pending, 200, "held");
}

static void a_device_that_waits_at_a_follower_is_woken_by_its_key(void **state) {
    pair *p = *state;
    asking other, pending;
    start_and_hold(p, &other);
    begin_asking(&pending, device(p, "/hold?50000&key=5"));
    wait_for(&p->leader->server.waiting, 2);
    atomic_store(&p->leader->server.released, true);
    atomic_store(&p->leader->server.woken, 5);
    fed_reply r = ask_device(p, "/echo", NULL);
    fed_reply_assert(&r, 200, "GET /echo?");
    end_asking(&pending, 200, "held");
    assert_int_equal(atomic_load(&p->leader->server.handled), 2 + 1 + 1);
    atomic_fetch_add(&p->leader->server.epoch, 1);
    end_asking(&other, 200, "held");
}

static void a_refusal_of_the_leader_passes_as_it_is(void **state) {
    pair *p = *state;
    fed_reply r = ask_device(p, "/no", "x");
    assert_header(&r, "Allow: GET, HEAD");
    fed_reply_assert(&r, 405, "no");
}

static char first_byte(const pair *p, const char *path) {
    fed_reply r = ask_device(p, path, NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.body.len, BIG_BLOB + 1);
    const char first = (char)r.body.data[0];
    fed_reply_free(&r);
    return first;
}

/* Let the leader answer /model with this byte and this ETag from now on. */
static void set_model(pair *p, char value, const char *tag) {
    fedserver_blob_free(p->leader->server.big);
    p->leader->server.big = big_blob(value);
    atomic_store(&p->leader->server.tag, tag);
}

/* The leader changes the body and keeps the ETag. The answer then shows whether the follower
 * used its copy. */
static void a_body_with_the_same_tag_crosses_the_link_once(void **state) {
    pair *p = *state;
    set_model(p, 'm', "\"one\"");
    assert_int_equal(first_byte(p, "/model?have=1"), 'm');
    set_model(p, 'n', "\"one\"");
    assert_int_equal(first_byte(p, "/model?have=1"), 'm');
    assert_int_equal(atomic_load(&p->leader->server.handled), 2);
    assert_int_equal(first_byte(p, "/model?have=2"), 'n');
    set_model(p, 'o', "\"two\"");
    assert_int_equal(first_byte(p, "/model?have=1"), 'o');
    set_model(p, 'p', "W/\"two\""); /* a weak ETag does not promise equal bytes */
    assert_int_equal(first_byte(p, "/model?have=3"), 'p');
    set_model(p, 'q', "W/\"two\"");
    assert_int_equal(first_byte(p, "/model?have=3"), 'q');
}

static void a_device_that_leaves_is_no_longer_asked_for(void **state) {
    pair *p = *state;
    char none[200];
    int before = 0, after = 1;
    CURL *curl = fed_curl_raw(&p->follower->ca, &p->follower->device, p->follower->devices_port);
    fed_curl_send(curl, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&p->leader->server.waiting, 1);
    fed_curl_receive_for(curl, "HTTP", none, sizeof none, 10);
    curl_easy_cleanup(curl);
    for (int k = 0; k < 50 && before != after; k++) {
        before = atomic_load(&p->leader->server.handled);
        atomic_fetch_add(&p->leader->server.epoch, 1);
        fed_sleep_ms(300);
        after = atomic_load(&p->leader->server.handled);
    }
    assert_int_equal(before, after);
}

static void without_a_leader_an_update_waits_like_a_get(void **state) {
    pair *p = *state;
    asking waiting, update;
    start_leader(p);
    start_follower(p, "");
    CURL *curl = device(p, "/echo");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "an update");
    begin_asking(&update, curl);
    begin_asking(&waiting, device(p, "/echo?later"));
    fed_sleep_ms(200);
    atomic_store(&p->follower->server.leader, p->address);
    atomic_fetch_add(&p->follower->server.term, 1);
    end_asking(&waiting, 200, "GET /echo?later");
    end_asking(&update, 200, "an update");
}

static void nothing_waits_for_a_leader_for_ever(void **state) {
    pair *p = *state;
    p->follower->options.leader_wait_ms = 300;
    start_follower(p, "");
    for (int k = 0; k < 2; k++) {
        CURL *curl = device(p, "/echo");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                         8000L); /* shorter than the default of leader_wait_ms */
        if (k > 0) {
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "an update");
        }
        fed_reply r = fed_curl_ask(curl);
        assert_header(&r, "Retry-After: 1");
        fed_reply_assert(&r, 503, "no coordinator leads");
        curl_easy_cleanup(curl);
    }
}

static void when_the_leader_goes_its_follower_answers_what_was_held(void **state) {
    pair *p = *state;
    asking pending, update;
    start_and_hold(p, &pending);
    CURL *curl = device(p, "/hold?50000");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "an update");
    begin_asking(&update, curl);
    wait_for(&p->leader->server.waiting, 2);
    finish(p->leader);
    p->leader_runs = false;
    assert_int_equal(atomic_load(&p->leader->server.let_go), 1);
    atomic_store(&p->follower->server.released, true);
    atomic_store(&p->follower->server.follows, false);
    end_asking(&pending, 200, "held");
    end_asking(&update, 200, "held");
    assert_true(atomic_load(&p->follower->server.handled) > 0);
}

static void what_was_not_committed_is_not_answered(void **state) {
    pair *p = *state;
    p->follower->options.leader_wait_ms = 300;
    start_both(p);
    atomic_store(&p->leader->server.commit_fails, true);
    fed_reply r = ask_device(p, "/promise", "an update");
    fed_reply_assert(&r, 503, "no coordinator leads");
    join(p->leader);
    p->leader_runs = false;
    assert_fed_status(p->leader->status, FED_EIO);
}

static void a_follower_that_stops_refuses_what_is_held(void **state) {
    pair *p = *state;
    asking pending;
    start_and_hold(p, &pending);
    finish(p->follower);
    p->follower_runs = false;
    end_asking(&pending, 503, "stopping");
}

static void a_follower_rests_while_nothing_happens(void **state) {
    pair *p = *state;
    asking waiting;
    start_leader(p);
    start_follower(p, "");
    begin_asking(&waiting, device(p, "/echo"));
    assert_in_range(server_load_percent(p->follower), 0, 5);
    atomic_store(&p->follower->server.leader, "127.0.0.1:9");
    atomic_fetch_add(&p->follower->server.term, 1);
    assert_in_range(server_load_percent(p->follower), 0, 5);
    atomic_store(&p->follower->server.leader, p->address);
    atomic_fetch_add(&p->follower->server.term, 1);
    end_asking(&waiting, 200, "GET /echo");
    assert_in_range(server_load_percent(p->follower), 0, 5);
    assert_in_range(server_load_percent(p->leader), 0, 5);
}

#define BOTH(name) cmocka_unit_test_setup_teardown(name, setup_both, teardown_pair)
#define PAIR(name) cmocka_unit_test_setup_teardown(name, setup_pair, teardown_pair)

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR(a_start_that_fails_closes_the_socket_for_links),
        BOTH(the_leader_answers_what_arrives_at_a_follower),
        BOTH(ranges_tags_and_retries_arrive_as_headers),
        BOTH(large_bodies_pass_in_both_directions),
        PAIR(a_follower_knows_how_large_an_update_may_be),
        PAIR(answers_come_in_the_order_in_which_they_are_ready),
        PAIR(a_device_that_waits_at_a_follower_is_woken_by_its_key),
        BOTH(a_refusal_of_the_leader_passes_as_it_is),
        BOTH(a_body_with_the_same_tag_crosses_the_link_once),
        BOTH(a_device_that_leaves_is_no_longer_asked_for),
        PAIR(without_a_leader_an_update_waits_like_a_get),
        PAIR(nothing_waits_for_a_leader_for_ever),
        PAIR(when_the_leader_goes_its_follower_answers_what_was_held),
        PAIR(what_was_not_committed_is_not_answered),
        PAIR(a_follower_rests_while_nothing_happens),
        PAIR(a_follower_that_stops_refuses_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
