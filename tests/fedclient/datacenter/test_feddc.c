/* Exchanges of a worker group in one process: sums, residuals, order, and refused options. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feddc/exchange.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "fed/rng.h"
#include "fed_cases.h"

enum { MOST = 5, STEPS = 4 };

static const size_t tensors[] = {300, 1000, 20, 4000, 7, 9000};
enum { TENSORS = sizeof tensors / sizeof tensors[0], SIZE = 300 + 1000 + 20 + 4000 + 7 + 9000 };

typedef struct group {
    uint32_t size;
    const char *collective, *codec, *pull;
    bool preset; /* the options leave the size of a bucket to the library */
    uint64_t messages;
    uint32_t plain_every; /* interval of uncompressed steps; 0: none */
    uint32_t late;        /* number of backup workers */
    pthread_barrier_t through;
    uint32_t missed;       /* steps whose sums came before the last worker began them */
    float *residual[MOST]; /* float32[SIZE] each; only with backup workers */
    struct feddc_hub *hub;
    float *sum[MOST]; /* float32[STEPS * SIZE] each; NULL for an aggregator */
    fed_error err[MOST];
} group;

typedef struct member {
    group *g;
    uint32_t rank;
    pthread_t thread;
} member;

static void make_gradient(uint32_t rank, uint32_t step, float *grad) {
    fed_rng rng;
    fed_rng_init(&rng, 21, step, rank);
    for (size_t i = 0; i < SIZE; i++) {
        grad[i] = fed_rng_float(&rng) - 0.5f;
    }
}

static fed_status open_exchange(group *g, uint32_t rank, feddc_exchange **x, fed_error *err) {
    feddc_exchange_options options = {.link = feddc_link_named("threads"),
                                      .place = {.rank = rank, .size = g->size, .hub = g->hub},
                                      .collective = g->collective,
                                      .codec = g->codec,
                                      .pull = g->pull,
                                      .late = g->late,
                                      .tensor = tensors,
                                      .tensors = TENSORS,
                                      .bucket = g->preset ? 0 : 16384};
    return feddc_exchange_open(&options, x, err);
}

static void keep(void *user, size_t offset, const float *sum, size_t n) {
    memcpy((float *)user + offset, sum, n * sizeof *sum);
}

static bool is_plain(const group *g, uint32_t step) {
    return g->plain_every > 0 && step % g->plain_every == 0;
}

/** Put the parts in from the end, as a backward pass does; take the sums from the beginning. */
static fed_status one_step(group *g, feddc_exchange *x, uint32_t step, const float *grad,
                           float *sum, fed_error *err) {
    size_t at = SIZE;
    for (size_t k = TENSORS; k-- > 0;) {
        at -= tensors[k];
        feddc_exchange_put(x, step, at, grad + at, tensors[k], is_plain(g, step));
    }
    for (size_t k = 0; k < TENSORS; k++) {
        FED_TRY(feddc_exchange_take(x, step, at, tensors[k], keep, sum, err));
        at += tensors[k];
    }
    return FED_OK;
}

static void await_last_sum(feddc_exchange *x) {
    enum { MOST_MS = 20000 };
    const struct timespec ms = {.tv_nsec = 1000000};
    for (int k = 0; k < MOST_MS && !feddc_exchange_is_late(x, STEPS - 1); k++) {
        (void)nanosleep(&ms, NULL);
    }
}

static fed_status work(group *g, uint32_t rank, feddc_exchange *x, fed_error *err) {
    if (rank >= feddc_exchange_workers(x)) {
        return feddc_exchange_serve(x, err);
    }
    float *grad = malloc(SIZE * sizeof *grad);
    g->sum[rank] = calloc((size_t)STEPS * SIZE, sizeof(float));
    fed_status status = FED_OK;
    bool last = g->late > 0 && rank + 1 == feddc_exchange_workers(x);
    if (last) {
        pthread_barrier_wait(&g->through);
        await_last_sum(x);
    }
    for (uint32_t step = 0; step < STEPS && status == FED_OK; step++) {
        make_gradient(rank, step, grad);
        if (last) {
            g->missed += feddc_exchange_is_late(x, step);
        }
        status = one_step(g, x, step, grad, g->sum[rank] + (size_t)step * SIZE, err);
    }
    free(grad);
    if (rank == 0) {
        feddc_exchange_counts counts;
        feddc_exchange_count(x, &counts);
        g->messages = counts.messages;
    }
    if (g->late > 0) {
        if (!last) {
            pthread_barrier_wait(&g->through);
        }
        g->residual[rank] = calloc(feddc_exchange_state_size(x), sizeof(float));
        status = feddc_exchange_save(x, g->residual[rank], err);
    }
    return status;
}

static void *play(void *user) {
    member *m = user;
    feddc_exchange *x = NULL;
    fed_error *err = &m->g->err[m->rank];
    fed_status status = open_exchange(m->g, m->rank, &x, err);
    if (status == FED_OK) {
        status = work(m->g, m->rank, x, err);
        feddc_exchange_close(x, status == FED_OK);
    }
    return NULL;
}

static void run(group *g) {
    member m[MOST];
    g->hub = feddc_hub_new(g->size);
    for (uint32_t r = 0; r < g->size; r++) {
        m[r] = (member){.g = g, .rank = r};
        assert_int_equal(pthread_create(&m[r].thread, NULL, play, &m[r]), 0);
    }
    for (uint32_t r = 0; r < g->size; r++) {
        pthread_join(m[r].thread, NULL);
        if (g->err[r].status != FED_OK) {
            fail_msg("the exchange of rank %u failed: %s", r, g->err[r].text);
        }
    }
    feddc_hub_free(g->hub);
}

static void clear(group *g) {
    for (uint32_t r = 0; r < g->size; r++) {
        free(g->sum[r]);
        free(g->residual[r]);
    }
}

static void assert_all_have_the_same_bits(const group *g, uint32_t workers) {
    for (uint32_t r = 1; r < workers; r++) {
        assert_memory_equal(g->sum[r], g->sum[0], (size_t)STEPS * SIZE * sizeof(float));
    }
}

/** Compute the sum in float32 in the order of the ranks. */
static void expect(uint32_t workers, uint32_t step, float *sum) {
    float *grad = malloc(SIZE * sizeof *grad);
    make_gradient(0, step, sum);
    for (uint32_t r = 1; r < workers; r++) {
        make_gradient(r, step, grad);
        for (size_t i = 0; i < SIZE; i++) {
            sum[i] += grad[i];
        }
    }
    free(grad);
}

static void assert_exact(const group *g, uint32_t workers, uint32_t step) {
    float *sum = malloc(SIZE * sizeof *sum);
    expect(workers, step, sum);
    assert_memory_equal(g->sum[0] + (size_t)step * SIZE, sum, SIZE * sizeof *sum);
    free(sum);
}

FED_TEST(float32_is_the_sum_in_the_order_of_ranks) {
    for (uint32_t size = 1; size <= MOST; size++) {
        group g = {.size = size, .collective = "owners"};
        run(&g);
        assert_all_have_the_same_bits(&g, size);
        for (uint32_t step = 0; step < STEPS; step++) {
            assert_exact(&g, size, step);
        }
        clear(&g);
    }
}

FED_TEST(aggregators_sum_for_the_workers) {
    for (uint32_t aggregators = 1; aggregators <= 2; aggregators++) {
        char collective[32];
        snprintf(collective, sizeof collective, "owners:aggregators=%u", aggregators);
        group g = {.size = 3 + aggregators, .collective = collective};
        run(&g);
        assert_all_have_the_same_bits(&g, 3);
        assert_exact(&g, 3, STEPS - 1);
        clear(&g);
    }
}

FED_TEST(a_codec_that_is_named_float32_has_the_buckets_of_none) {
    static const char *const codecs[] = {NULL, "float32", "float16"};
    uint64_t messages[3];
    for (size_t k = 0; k < 3; k++) {
        group g = {.size = 3,
                   .collective = "owners:aggregators=1",
                   .codec = codecs[k],
                   .pull = codecs[k],
                   .preset = true};
        run(&g);
        messages[k] = g.messages;
        clear(&g);
    }
    assert_int_equal(messages[2], STEPS);
    assert_true(messages[0] > STEPS);
    assert_int_equal(messages[1], messages[0]);
}

FED_TEST(lossy_codecs_leave_all_ranks_equal) {
    static const char *const codecs[] = {"3lc:s=1.75", "sbc:p=0.01", "twobit", "onebit",
                                         "int8",       "inceptionn", "float16"};
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        group g = {.size = 4, .codec = codecs[k], .pull = codecs[k]};
        run(&g);
        assert_all_have_the_same_bits(&g, 4);
        clear(&g);
    }
}

/** float16 rounds by at most 2^-11 of a value. A sum of four values below 1/2 is below 2. */
FED_TEST(pushes_and_pulls_have_codecs_of_their_own) {
    group g = {.size = 4, .codec = "float32", .pull = "float16"};
    float *sum = malloc(SIZE * sizeof *sum);
    run(&g);
    expect(4, 0, sum);
    size_t rounded = 0;
    for (size_t i = 0; i < SIZE; i++) {
        assert_true(fabsf(g.sum[0][i] - sum[i]) <= 0x1p-10f);
        rounded += g.sum[0][i] != sum[i];
    }
    assert_true(rounded > SIZE / 2);
    free(sum);
    clear(&g);
}

FED_TEST(plain_steps_are_float32) {
    group g = {.size = 3, .codec = "onebit", .pull = "onebit", .plain_every = 2};
    run(&g);
    assert_all_have_the_same_bits(&g, 3);
    assert_exact(&g, 3, 0);
    assert_exact(&g, 3, 2);
    float *sum = malloc(SIZE * sizeof *sum);
    expect(3, 1, sum);
    assert_memory_not_equal(g.sum[0] + SIZE, sum, SIZE * sizeof *sum);
    free(sum);
    clear(&g);
}

/** Return what is lost at value i: all gradients, less the sums, less the residuals. */
static double lost_at(const group *g, uint32_t workers, size_t i) {
    double lost = 0;
    float *grad = malloc(SIZE * sizeof *grad);
    for (uint32_t step = 0; step < STEPS; step++) {
        lost -= g->sum[0][(size_t)step * SIZE + i];
        for (uint32_t r = 0; r < workers; r++) {
            make_gradient(r, step, grad);
            lost += grad[i];
        }
    }
    for (uint32_t r = 0; r < workers; r++) {
        lost -= g->residual[r][i];
    }
    free(grad);
    return lost;
}

FED_TEST(a_backup_worker_is_not_waited_for_and_loses_nothing) {
    group g = {.size = 4, .collective = "owners:aggregators=1", .codec = "int8", .late = 1};
    pthread_barrier_init(&g.through, NULL, 3);
    run(&g);
    assert_all_have_the_same_bits(&g, 3);
    assert_int_equal(g.missed, STEPS);
    for (size_t i = 0; i < SIZE; i += 501) {
        assert_true(fabs(lost_at(&g, 3, i)) < 1e-4);
    }
    pthread_barrier_destroy(&g.through);
    clear(&g);
}

FED_TEST(two_steps_may_be_under_way) {
    group g = {.size = 1, .hub = feddc_hub_new(1)};
    feddc_exchange *x = NULL;
    float *grad = malloc(2 * SIZE * sizeof *grad), *sum = malloc(SIZE * sizeof *sum);
    assert_int_equal(open_exchange(&g, 0, &x, NULL), FED_OK);
    make_gradient(0, 0, grad);
    make_gradient(0, 1, grad + SIZE);
    feddc_exchange_put(x, 7, 0, grad, SIZE, false);
    feddc_exchange_put(x, 8, 0, grad + SIZE, SIZE, false);
    for (uint32_t k = 0; k < 2; k++) {
        assert_int_equal(feddc_exchange_take(x, 7 + k, 0, SIZE, keep, sum, NULL), FED_OK);
        assert_memory_equal(sum, grad + k * SIZE, SIZE * sizeof *sum);
    }
    feddc_exchange_close(x, true);
    feddc_hub_free(g.hub);
    free(grad);
    free(sum);
}

typedef struct caller {
    struct feddc_hub *hub;
    const char *nic;
    uint32_t rank;
    float exact[2], compressed[2];
    fed_status status;
    fed_error err;
} caller;

static void *call(void *user) {
    static const size_t two = 2;
    caller *c = user;
    const float grad[2] = {0.125f, 3};
    const feddc_exchange_options options = {.link = feddc_link_named("threads"),
                                            .place = {.rank = c->rank, .size = 2, .hub = c->hub},
                                            .nic = c->nic,
                                            .tensor = &two,
                                            .tensors = 1};
    feddc_exchange *x = NULL;
    c->status = feddc_exchange_open(&options, &x, &c->err);
    if (c->status == FED_OK) {
        c->status = feddc_allreduce(x, 0, grad, c->exact, &c->err);
    }
    if (c->status == FED_OK) {
        c->status = feddc_allreduce_compressed(x, 1, grad, c->compressed, &c->err);
    }
    feddc_exchange_close(x, true);
    return NULL;
}

static void call_both(const char *nic, caller c[2]) {
    pthread_t thread[2];
    struct feddc_hub *hub = feddc_hub_new(2);
    for (uint32_t r = 0; r < 2; r++) {
        c[r] = (caller){.hub = hub, .nic = nic, .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, call, &c[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        pthread_join(thread[r], NULL);
        assert_true(c[r].exact[0] == 0.25f && c[r].exact[1] == 6);
    }
    feddc_hub_free(hub);
}

/* With e=1, NICs change values below 1/2 to 0. Both ranks give 1/8, so the compressed sum is 0. */
FED_TEST(an_allreduce_is_exact_or_goes_through_nics) {
    caller c[2];
    call_both("inline:e=1", c);
    for (uint32_t r = 0; r < 2; r++) {
        assert_fed_ok(c[r].status);
        assert_true(c[r].compressed[0] == 0 && c[r].compressed[1] == 6);
    }
    call_both(NULL, c);
    for (uint32_t r = 0; r < 2; r++) {
        assert_fed_status(c[r].status, FED_EINVAL);
        assert_fed_says(c[r].err, "nothing compresses");
    }
}

static void refused(const char *collective, uint32_t late, const char *codec, const char *word) {
    feddc_exchange_options options = {.link = feddc_link_named("threads"),
                                      .place = {.rank = 0, .size = 2, .hub = feddc_hub_new(2)},
                                      .collective = collective,
                                      .codec = codec,
                                      .tensor = tensors,
                                      .tensors = TENSORS,
                                      .late = late};
    feddc_exchange *x = NULL;
    fed_error err = {0};
    assert_int_equal(feddc_exchange_open(&options, &x, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, word));
    feddc_hub_free(options.place.hub);
}

FED_TEST(what_does_not_fit_is_refused) {
    refused("gossip", 0, "float32", "gossip");
    refused("owners:aggregators=2", 0, "float32", "no worker left");
    refused("owners", 0, "3lc:s=9", "3lc");
    refused("owners", 0, "3lc:s=1.5+runs", "second stage");
    refused("owners", 1, "3lc", "aggregators");
    refused("owners:aggregators=1", 1, "3lc", "one worker at least");
}
