/* A thread without signals, a wait by the monotonic clock, and a pool, whose threads wait for a run
 * and take its chunks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH_MAX = 1024 };

bool fed_thread_start(pthread_t *thread, void *(*body)(void *), void *user) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(thread, NULL, body, user) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void fed_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool fed_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us) {
    const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                   .tv_nsec = (long)(until_us % 1000000) * 1000};
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}

struct fed_threads {
    fed_pool pool; /* the first member, so that its address is that of the fed_threads */
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    /* The current run. Chunks from next on are not taken yet; left counts the chunks that are not
     * finished yet. */
    void (*part)(void *job, size_t k);
    void *job;
    size_t parts, next, left;
    bool closing;
    size_t count;
    pthread_t thread[];
};

/* Run chunks until none is left to take. The caller holds the lock, which is released while a chunk
 * runs. */
static void take_parts(fed_threads *t) {
    while (t->next < t->parts) {
        size_t k = t->next++;
        pthread_mutex_unlock(&t->lock);
        t->part(t->job, k);
        pthread_mutex_lock(&t->lock);
        if (--t->left == 0) {
            pthread_cond_signal(&t->ended);
        }
    }
}

static void *work(void *arg) {
    fed_threads *t = arg;
    pthread_mutex_lock(&t->lock);
    while (!t->closing) {
        take_parts(t);
        pthread_cond_wait(&t->begun, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void run(const fed_pool *self, size_t parts, void (*part)(void *job, size_t k), void *job) {
    fed_threads *t = (fed_threads *)(void *)self; /* made by fed_threads_open, so not const */
    pthread_mutex_lock(&t->lock);
    t->part = part;
    t->job = job;
    t->parts = t->left = parts;
    t->next = 0;
    pthread_cond_broadcast(&t->begun);
    take_parts(t);
    while (t->left > 0) {
        pthread_cond_wait(&t->ended, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
}

static size_t processors(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > WIDTH_MAX ? WIDTH_MAX : (size_t)count;
}

fed_status fed_threads_open(size_t width, fed_threads **threads, fed_error *err) {
    if (width > WIDTH_MAX) {
        return fed_fail(err, FED_EINVAL, "%zu threads; at most %d", width, WIDTH_MAX);
    }
    width = width > 0 ? width : processors();
    fed_threads *t = calloc(1, sizeof *t + (width - 1) * sizeof t->thread[0]);
    if (t == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %zu threads", width);
    }
    t->pool = (fed_pool){.width = width, .run = run};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begun, NULL);
    pthread_cond_init(&t->ended, NULL);
    while (t->count < width - 1) {
        if (pthread_create(&t->thread[t->count], NULL, work, t) != 0) {
            fed_fail(err, FED_EBUSY, "the system started only %zu of %zu threads; use fewer",
                     t->count, width - 1);
            fed_threads_close(t);
            return FED_EBUSY;
        }
        t->count++;
    }
    *threads = t;
    return FED_OK;
}

const fed_pool *fed_threads_pool(const fed_threads *threads) {
    return &threads->pool;
}

void fed_threads_close(fed_threads *threads) {
    if (threads == NULL) {
        return;
    }
    pthread_mutex_lock(&threads->lock);
    threads->closing = true;
    pthread_cond_broadcast(&threads->begun);
    pthread_mutex_unlock(&threads->lock);
    for (size_t k = 0; k < threads->count; k++) {
        pthread_join(threads->thread[k], NULL);
    }
    pthread_cond_destroy(&threads->ended);
    pthread_cond_destroy(&threads->begun);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
}
