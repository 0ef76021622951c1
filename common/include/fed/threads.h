/* Threads of this process: a single thread, or a pool; and conditions that they wait for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_THREADS_H
#define FED_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/pool.h"

FED_API_BEGIN

/** Start a thread as pthread_create does. The thread receives no signals, which are for the
 * program's main thread. Returns false if the system can't start one. */
bool fed_thread_start(pthread_t *thread, void *(*body)(void *), void *user) FED_CHECKED;

/** Make a condition variable for fed_cond_wait_until. pthread_cond_destroy ends it. */
void fed_cond_init(pthread_cond_t *cond);

/** Wait as pthread_cond_wait does, at most until fed_clock_monotonic_us() is until_us, whatever
 * happens to the wall clock. Returns false if that time has come. */
bool fed_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us);

typedef struct fed_threads fed_threads;

/**
 * Start a pool that runs width chunks at once, one of them in the thread that calls its run.
 * width 0: as many as the machine has processors.
 * Errors: FED_ENOMEM; FED_EINVAL width above 1024; FED_EBUSY the system can't start more threads.
 */
fed_status fed_threads_open(size_t width, fed_threads **threads, fed_error *err) FED_CHECKED;

/** Return the pool. It is valid until fed_threads_close, and takes one run at a time. */
const fed_pool *fed_threads_pool(const fed_threads *threads);

/** End the threads. NULL is allowed. */
void fed_threads_close(fed_threads *threads);

FED_API_END

#endif
