/* Exchanges with two steps under way, as odsgd and cdsgd have them: sums have the bits of one step
 * at a time, also while buckets wait because others are under way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/rng.h"
#include "feddc/exchange.h"
#include "link_group.h"

/* More values than may be under way at once. The rank FIRST begins before the other worker. */
enum { SIZE = 1 << 18, STEPS = 4, WORKERS = 2, RANKS = WORKERS + 1, FIRST = 0 };

typedef struct setting {
    const char *link, *collective, *codec;
    uint32_t plain_every; /* interval of float32 steps, 0: none */
    size_t bucket;        /* bytes */
} setting;

typedef struct member {
    const setting *s;
    const feddc_place *place;
    bool overlaps;
    atomic_bool *ahead; /* the rank FIRST has put two steps in */
    float *grad, *sum;  /* float32[STEPS * SIZE] each */
    fed_error err;
} member;

static void keep(void *user, size_t offset, const float *sum, size_t n) {
    memcpy((float *)user + offset, sum, n * sizeof *sum);
}

static void put(member *m, feddc_exchange *x, uint32_t step) {
    const bool plain = m->s->plain_every > 0 && step % m->s->plain_every == 0;
    feddc_exchange_put(x, step, 0, m->grad + (size_t)step * SIZE, SIZE, plain);
}

static fed_status take(member *m, feddc_exchange *x, uint32_t step) {
    return feddc_exchange_take(x, step, 0, SIZE, keep, m->sum + (size_t)step * SIZE, &m->err);
}

static void await_first(const member *m) {
    const int64_t until = fed_clock_monotonic_ms() + 60000;
    while (!atomic_load(m->ahead) && fed_clock_monotonic_ms() < until) {
        fed_sleep_ms(1);
    }
}

/* The other worker waits until FIRST has put two steps in. So at FIRST no bucket ends before the
 * gradients of the second step are there, and the last buckets of the first step still wait. */
static fed_status overlap(member *m, feddc_exchange *x) {
    if (m->place->rank != FIRST) {
        await_first(m);
    }
    put(m, x, 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step + 1 < STEPS) {
            put(m, x, step + 1);
        }
        if (m->place->rank == FIRST) {
            atomic_store(m->ahead, true);
        }
        FED_TRY(take(m, x, step));
    }
    return FED_OK;
}

static fed_status one_at_a_time(member *m, feddc_exchange *x) {
    for (uint32_t step = 0; step < STEPS; step++) {
        put(m, x, step);
        FED_TRY(take(m, x, step));
    }
    return FED_OK;
}

static void play(void *entry) {
    member *m = entry;
    const size_t size = SIZE;
    const feddc_exchange_options options = {.link = feddc_link_named(m->s->link),
                                            .place = *m->place,
                                            .collective = m->s->collective,
                                            .codec = m->s->codec,
                                            .bucket = m->s->bucket,
                                            .tensor = &size,
                                            .tensors = 1};
    feddc_exchange *x = NULL;
    if (feddc_exchange_open(&options, &x, &m->err) != FED_OK) {
        return;
    }
    const fed_status status = m->place->rank >= feddc_exchange_workers(x)
                                  ? feddc_exchange_serve(x, &m->err)
                              : m->overlaps ? overlap(m, x)
                                            : one_at_a_time(m, x);
    feddc_exchange_close(x, status == FED_OK);
}

static float *make_gradients(uint32_t rank) {
    float *grad = malloc((size_t)STEPS * SIZE * sizeof *grad);
    fed_rng rng;
    assert_non_null(grad);
    fed_rng_init(&rng, 17, 0, rank);
    for (size_t i = 0; i < (size_t)STEPS * SIZE; i++) {
        grad[i] = fed_rng_float(&rng) - 0.5F;
    }
    return grad;
}

/* Return the sums of all workers, float32[WORKERS * STEPS * SIZE]. */
static float *sums_of(const setting *s, bool overlaps) {
    const feddc_link_vtable *link = feddc_link_named(s->link);
    const uint32_t ranks = strcmp(s->collective, "owners") == 0 ? WORKERS : RANKS;
    float *sum = calloc((size_t)WORKERS * STEPS * SIZE, sizeof *sum);
    atomic_bool ahead = false;
    member m[RANKS] = {0};
    link_group group;
    assert_non_null(sum);
    link_group_open(&group, link, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        m[r] = (member){.s = s,
                        .place = &group.place[r],
                        .overlaps = overlaps,
                        .ahead = &ahead,
                        .grad = r < WORKERS ? make_gradients(r) : NULL,
                        .sum = r < WORKERS ? sum + (size_t)r * STEPS * SIZE : NULL};
    }
    link_group_run(ranks, play, m, sizeof *m);
    for (uint32_t r = 0; r < ranks; r++) {
        assert_string_equal(m[r].err.text, "");
        free(m[r].grad);
    }
    link_group_close(&group);
    return sum;
}

static void check(const setting *s) {
    float *overlapped = sums_of(s, true), *single = sums_of(s, false);
    const size_t all = (size_t)STEPS * SIZE;
    assert_memory_equal(overlapped, single, WORKERS * all * sizeof *single);
    assert_memory_equal(overlapped, overlapped + all, all * sizeof *single);
    free(overlapped);
    free(single);
}

static const char *const collectives[] = {"owners", "owners:aggregators=1"};
/* 4, 16, 32 and 64 buckets */
static const size_t buckets[] = {SIZE, SIZE / 4, SIZE / 8, SIZE / 16};

static void check_all(const char *link, const char *codec, uint32_t plain_every) {
    for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
        for (size_t b = 0; b < sizeof buckets / sizeof *buckets; b++) {
            const setting s = {.link = link,
                               .collective = collectives[c],
                               .codec = codec,
                               .plain_every = plain_every,
                               .bucket = buckets[b]};
            check(&s);
        }
    }
}

FED_TEST(odsgd_over_threads) {
    check_all("threads", NULL, 1);
}

FED_TEST(odsgd_over_tcp) {
    check_all("tcp", NULL, 1);
}

FED_TEST(cdsgd_over_threads) {
    check_all("threads", "3lc", 2);
    check_all("threads", "3lc", 0);
}

FED_TEST(cdsgd_over_tcp) {
    check_all("tcp", "3lc", 2);
    check_all("tcp", "3lc", 0);
}

int main(void) {
    alarm(120); /* ends an exchange that waits for ever */
    return fed_cases_run(NULL, NULL);
}
