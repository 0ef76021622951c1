/* The watch of a member: it aborts a real exchange when the worker group's generation is over,
 * and reports to the failure detector what the exchange waits for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "fed/clock.h"
#include "fed_cases.h"
#include "feddc/control.h"

enum { VALUES = 1000 };

static const uint8_t secret[FEDDC_SECRET] = {5};

typedef struct rank_thread {
    struct feddc_hub *hub;
    feddc_exchange *exchange;
} rank_thread;

static feddc_exchange *open_rank(struct feddc_hub *hub, uint32_t rank) {
    static const size_t tensor = VALUES;
    feddc_exchange_options options = {.link = feddc_link_named("threads"),
                                      .place = {.rank = rank, .size = 2, .hub = hub},
                                      .tensor = &tensor,
                                      .tensors = 1};
    feddc_exchange *x = NULL;
    fed_error err = {0};
    assert_fed_ok_err(feddc_exchange_open(&options, &x, &err));
    return x;
}

static void *open_second(void *user) {
    rank_thread *t = user;
    t->exchange = open_rank(t->hub, 1);
    return NULL;
}

static void use(void *user, size_t offset, const float *sum, size_t n) {
    (void)user;
    (void)offset;
    (void)sum;
    (void)n;
}

static void await_waiting(feddc_detector *detector) {
    feddc_member_look look = {.bucket = UINT32_MAX};
    for (int k = 0; k < 10000 && look.bucket == UINT32_MAX; k++) {
        assert_true(feddc_detector_member(detector, 0, &look));
        fed_sleep_ms(1);
    }
    assert_int_equal(look.bucket, 0);
}

FED_TEST(a_take_that_waits_returns_with_the_detectors_sentence) {
    fed_error err = {0};
    feddc_detector *detector = NULL;
    feddc_watch *watch = NULL;
    const feddc_worker_group *group = NULL;
    feddc_detector_options options = {.address = "127.0.0.1:0", .secret = secret, .size = 1};
    assert_fed_ok_err(feddc_detector_open(&options, &detector, &err));
    feddc_watch_options mine = {
        .address = feddc_detector_address(detector), .secret = secret, .rank = UINT32_MAX};
    assert_fed_ok_err(feddc_watch_open(&mine, &watch, &err));
    assert_fed_ok_err(feddc_watch_next(watch, 0, NULL, &group, &err));

    rank_thread second = {.hub = feddc_hub_new(2)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_second, &second), 0);
    feddc_exchange *first = open_rank(second.hub, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    feddc_watch_exchange(watch, first);
    static float grad[VALUES];
    feddc_exchange_put(first, 0, 0, grad, VALUES, false);
    await_waiting(detector);
    assert_false(feddc_watch_over(watch));
    feddc_detector_end(detector, "the operator said so");
    assert_fed_status(feddc_exchange_take(first, 0, 0, VALUES, use, NULL, &err), FED_EIO);
    assert_fed_says(err, "the operator said so");
    assert_true(feddc_watch_over(watch));

    feddc_watch_exchange(watch, NULL);
    feddc_exchange_close(first, false);
    feddc_exchange_close(second.exchange, false);
    feddc_hub_free(second.hub);
    feddc_watch_close(watch, NULL);
    feddc_detector_close(detector);
}
