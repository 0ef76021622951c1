/* Which of several tasks gets a device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedserver/rounds/choice.h"

static fedserver_offer offer(uint64_t task, fedserver_place place, uint32_t priority,
                             uint64_t served) {
    return (fedserver_offer){.task = task, .place = place, .priority = priority, .served = served};
}

static void assert_before(fedserver_offer a, fedserver_offer b) {
    for (int64_t device = 1; device < 50; device++) {
        assert_true(fedserver_offer_before(&a, &b, device));
        assert_false(fedserver_offer_before(&b, &a, device));
    }
}

FED_TEST(a_better_place_comes_before_priority) {
    for (int place = FEDSERVER_PLACE_UNWANTED; place < FEDSERVER_PLACE_LEASED; place++) {
        assert_before(offer(1, (fedserver_place)(place + 1), 1, 9),
                      offer(2, (fedserver_place)place, 9, 0));
    }
}

FED_TEST(a_larger_priority_comes_first) {
    assert_before(offer(1, FEDSERVER_PLACE_FREE, 6, 9), offer(2, FEDSERVER_PLACE_FREE, 5, 0));
    assert_before(offer(2, FEDSERVER_PLACE_FULL, 9, 9), offer(1, FEDSERVER_PLACE_FULL, 1, 0));
}

FED_TEST(of_equal_priority_the_least_recently_served_comes_first) {
    assert_before(offer(2, FEDSERVER_PLACE_FREE, 5, 7), offer(1, FEDSERVER_PLACE_FREE, 5, 8));
    assert_before(offer(2, FEDSERVER_PLACE_FREE, 5, 0), offer(1, FEDSERVER_PLACE_FREE, 5, 1));
}

FED_TEST(of_two_that_admit_later_the_earlier_comes_first) {
    fedserver_offer soon = offer(1, FEDSERVER_PLACE_EARLY, 1, 9);
    fedserver_offer late = offer(2, FEDSERVER_PLACE_EARLY, 9, 0);
    soon.admits_ms = 10;
    late.admits_ms = 11;
    assert_before(soon, late);
}

FED_TEST(the_order_is_total_and_the_same_each_time) {
    fedserver_offer all[4 * 2 * 2];
    size_t n = 0;
    for (uint64_t task = 1; task <= 4; task++) {
        for (uint32_t priority = 4; priority <= 5; priority++) {
            for (uint64_t served = 0; served < 2; served++) {
                all[n] = offer(n + 1, FEDSERVER_PLACE_FREE, priority, served);
                n++;
            }
        }
    }
    for (int64_t device = 1; device <= 20; device++) {
        size_t before[4 * 2 * 2] = {0}; /* before[k]: offers before the k-th */
        uint32_t seen = 0;
        for (size_t a = 0; a < n; a++) {
            for (size_t b = 0; b < n; b++) {
                before[a] += a != b && fedserver_offer_before(&all[b], &all[a], device);
            }
            seen |= UINT32_C(1) << before[a];
        }
        assert_int_equal(seen, (UINT32_C(1) << n) - 1);
    }
}

/* With 3,000 devices without a model and three equal tasks, the hash gives each task a third. */
FED_TEST(ties_are_shared_out_evenly) {
    enum { DEVICES = 3000, TASKS = 3 };
    int got[TASKS] = {0};
    for (int64_t device = 1; device <= DEVICES; device++) {
        fedserver_offer best = offer(1, FEDSERVER_PLACE_FREE, 5, 0);
        for (uint64_t task = 2; task <= TASKS; task++) {
            const fedserver_offer other = offer(task, FEDSERVER_PLACE_FREE, 5, 0);
            best = fedserver_offer_before(&other, &best, device) ? other : best;
        }
        got[best.task - 1]++;
    }
    for (int k = 0; k < TASKS; k++) { /* mean 1000; 6 sigma, sigma = 26 */
        assert_in_range(got[k], 1000 - 155, 1000 + 155);
    }
}
