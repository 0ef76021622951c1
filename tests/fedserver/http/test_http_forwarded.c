/* Which requests a leader accepts from followers: those of devices, but none that a front must
 * answer itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "http_world.h"

#include "fedserver/http/http_exchange.h"

typedef struct hall {
    fedserver server;
    http http;
    cluster_frame frame;
    fed_error err;
} hall;

static int open_hall(void **state) {
    hall *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->http.server = &l->server;
    l->server.begun = true;
    cluster_frame_init(&l->frame);
    *state = l;
    return 0;
}

static int close_hall(void **state) {
    hall *l = *state;
    fed_writer_free(&l->frame.head);
    fed_writer_free(&l->frame.body);
    free(l);
    return 0;
}

/* Let a frame with this request arrive. Returns NULL if the frame ends the link. */
static http_exchange *ask(hall *l, fedserver_listener listener, const char *path, size_t body) {
    const fedserver_request request = {
        .listener = listener, .method = "GET", .path = path, .query = "", .waited_ms = 5000};
    void *owner = NULL;
    l->frame.head.len = 0;
    cluster_request_write(&l->frame.head, &request, "");
    if (body > 0) {
        memset(fed_writer_reserve(&l->frame.body, body), 'b', body);
        fed_writer_advance(&l->frame.body, body);
    }
    const fed_status status = http_forwarded_asked(&l->http, NULL, &l->frame, &owner, &l->err);
    assert_int_equal(status == FED_OK, owner != NULL);
    assert_true(status == FED_OK || status == FED_EFORMAT);
    return owner;
}

static void leave(http_exchange *x) {
    http_queue_clear(&x->http->queue);
    http_forwarded_left(x->http, x);
    x->state = STATE_GONE;
    http_forwarded_end(x);
}

FED_TEST_WITH(a_follower_may_ask_what_fronts_pass_on_and_nothing_else_of_them, hall *l) {
    http_exchange *x = ask(l, FEDSERVER_FRONT, "/v1/status", 0);
    assert_non_null(x);
    assert_ptr_equal(l->http.queue.first, x);
    leave(x);
    assert_null(ask(l, FEDSERVER_FRONT, "/v1/enrol", 0));
    assert_fed_says(l->err, "a request that its own front must answer");
    assert_null(ask(l, FEDSERVER_FRONT, "/v1/devices", 0));
    x = ask(l, FEDSERVER_DEVICES, "/v1/devices", 0); /* the devices' port has this route, too */
    assert_non_null(x);
    leave(x);
}

FED_TEST_WITH(bytes_that_are_no_request_end_the_link, hall *l) {
    void *owner = NULL;
    fed_write_bytes(&l->frame.head, "what?", 5);
    assert_fed_status(http_forwarded_asked(&l->http, NULL, &l->frame, &owner, &l->err),
                      FED_EFORMAT);
    assert_fed_says(l->err, "can't be read");
    assert_null(owner);
}

FED_TEST_WITH(a_body_is_counted_until_its_request_is_over, hall *l) {
    http_exchange *x = ask(l, FEDSERVER_DEVICES, "/echo", 3000);
    assert_non_null(x);
    assert_null(x->refused);
    assert_int_equal(x->request.body_len, 3000);
    assert_int_equal(x->request.body[2999], 'b');
    assert_int_equal(l->http.bodies, 3000);
    assert_int_equal(l->frame.body.len, 0);
    /* The time that the request waited at the follower counts, too. */
    assert_true(fed_clock_monotonic_ms() - x->parked_ms >= 5000);
    leave(x);
    assert_int_equal(l->http.bodies, 0);
}

FED_TEST_WITH(a_body_that_is_too_large_is_refused_and_the_link_goes_on, hall *l) {
    http_exchange *x = ask(l, FEDSERVER_DEVICES, "/small", SMALL + 1);
    assert_non_null(x);
    assert_non_null(x->refused);
    assert_int_equal(x->refused->status, 413);
    assert_int_equal(x->request.body_len, 0);
    leave(x);
    cluster_frame_clear(&l->frame);
    l->http.bodies = HTTP_BODIES_MOST - 2;
    x = ask(l, FEDSERVER_DEVICES, "/echo", 3);
    assert_non_null(x);
    assert_ptr_equal(x->refused, &http_refusal_full);
    assert_int_equal(l->http.bodies, HTTP_BODIES_MOST - 2);
    leave(x);
    assert_int_equal(l->http.bodies, HTTP_BODIES_MOST - 2);
}

FED_TEST_WITH(an_update_larger_than_the_leader_told_is_not_called_too_many_uploads, hall *l) {
    atomic_store(&l->server.heard_limit, 2);
    http_exchange *x = ask(l, FEDSERVER_DEVICES, "/echo", 3);
    assert_non_null(x);
    assert_non_null(x->refused);
    assert_int_equal(x->refused->status, 503);
    assert_non_null(strstr(x->refused->message, "no task with so large an update"));
    leave(x);
}

int main(void) {
    return fed_cases_run_each(open_hall, close_hall);
}
