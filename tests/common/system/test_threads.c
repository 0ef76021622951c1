/* A pool of threads: it does each part of a job once, and its threads take no signals. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "fed/clock.h"
#include "fed/threads.h"

enum { PARTS = 300 };

static void count_part(void *job, size_t k) {
    atomic_int *count = job;
    atomic_fetch_add(&count[k], 1);
}

FED_TEST(each_part_is_done_once) {
    for (size_t width = 1; width <= 9; width += 4) {
        fed_threads *threads = NULL;
        assert_fed_ok(fed_threads_open(width, &threads, NULL));
        const fed_pool *pool = fed_threads_pool(threads);
        assert_int_equal(pool->width, width);
        for (size_t parts = 0; parts < PARTS; parts += 37) {
            atomic_int count[PARTS] = {0};
            pool->run(pool, parts, count_part, count);
            for (size_t k = 0; k < PARTS; k++) {
                assert_int_equal(atomic_load(&count[k]), k < parts);
            }
        }
        fed_threads_close(threads);
    }
}

/* Part 0 waits until part 1 has begun, or for about 10 seconds. */
static void meet(void *job, size_t k) {
    atomic_int *begun = job;
    atomic_fetch_add(begun, 1);
    for (int tries = 0; k == 0 && atomic_load(begun) < 2 && tries < 10000; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

FED_TEST(parts_run_at_the_same_time) {
    fed_threads *threads = NULL;
    assert_fed_ok(fed_threads_open(2, &threads, NULL));
    atomic_int begun = 0;
    fed_threads_pool(threads)->run(fed_threads_pool(threads), 2, meet, &begun);
    assert_int_equal(atomic_load(&begun), 2);
    fed_threads_close(threads);
}

/* A wait that went by the wall clock would end at once: the monotonic clock is decades behind. */
FED_TEST(a_wait_ends_by_the_monotonic_clock_or_by_a_signal) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    fed_cond_init(&cond);
    const int64_t until_us = fed_clock_monotonic_us() + 20000;
    pthread_mutex_lock(&lock);
    while (fed_cond_wait_until(&cond, &lock, until_us)) {
    }
    pthread_mutex_unlock(&lock);
    assert_true(fed_clock_monotonic_us() >= until_us);
    pthread_cond_destroy(&cond);
}

FED_TEST(none_given_means_the_machines_processors) {
    fed_threads *threads = NULL;
    assert_fed_ok(fed_threads_open(0, &threads, NULL));
    assert_true(fed_threads_pool(threads)->width >= 1);
    fed_threads_close(threads);
    fed_threads_close(NULL);
}

static void *who_gets_signals(void *user) {
    sigset_t *blocked = user;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, blocked), 0);
    return NULL;
}

FED_TEST(a_thread_takes_no_signals_and_who_starts_it_does) {
    sigset_t of_thread, own;
    pthread_t thread;
    assert_true(fed_thread_start(&thread, who_gets_signals, &of_thread));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigismember(&of_thread, SIGTERM), 1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &own), 0);
    assert_int_equal(sigismember(&own, SIGTERM), 0);
}

FED_TEST(too_many_are_refused) {
    fed_threads *threads = NULL;
    fed_error err = {.text = ""};
    assert_fed_status(fed_threads_open(5000, &threads, &err), FED_EINVAL);
    assert_string_equal(err.text, "5000 threads; at most 1024");
    assert_null(threads);
}
