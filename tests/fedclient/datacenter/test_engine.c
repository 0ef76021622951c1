/* The exchange's engine: only a few buckets are under way at once, in whichever order ranks put
 * their buckets in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedclient/datacenter/engine.h"
#include "feddc/exchange.h"
#include "link_group.h"

/* With link threads a part of the gradient is about one bucket, with tcp more than two. */
enum { RANKS = 3, PART = 1 << 18, PARTS = 14, SIZE = PART * PARTS };

typedef struct member {
    const feddc_link_vtable *link;
    feddc_place place;
    uint32_t rank;
    uint32_t begun; /* the most buckets that may be under way */
    float *grad, *sum;
    /* Set when look() has run at rank 0. Until then the other ranks do not begin. NULL: they begin
     * at once. */
    atomic_bool *looked;
    uint64_t messages; /* number of messages that rank 0 had sent when look() ended */
    fed_error err;
    fed_status status;
} member;

static void keep(void *user, size_t offset, const float *sum, size_t n) {
    memcpy((float *)user + offset, sum, n * sizeof *sum);
}

/* Each rank has another order: from the end, from the beginning, or in steps of 5. */
static size_t part_of(uint32_t rank, size_t k) {
    return rank == 0 ? PARTS - 1 - k : rank == 1 ? k : k * 5 % PARTS;
}

static void look(member *m, feddc_exchange *x) {
    feddc_exchange_counts counts = {0};
    const int64_t until = fed_clock_monotonic_ms() + 20000;
    while (counts.messages < m->begun && fed_clock_monotonic_ms() < until) {
        fed_sleep_ms(5);
        feddc_exchange_count(x, &counts);
    }
    fed_sleep_ms(50);
    feddc_exchange_count(x, &counts);
    m->messages = counts.messages;
    atomic_store(m->looked, true);
}

static fed_status work(member *m, feddc_exchange *x) {
    while (m->looked != NULL && m->rank != 0 && !atomic_load(m->looked)) {
        fed_sleep_ms(5);
    }
    for (uint32_t step = 0; step < 2; step++) {
        for (size_t k = 0; k < PARTS; k++) {
            const size_t at = part_of(m->rank, k) * PART;
            feddc_exchange_put(x, step, at, m->grad + at, PART, false);
        }
        if (m->looked != NULL && m->rank == 0 && step == 0) {
            look(m, x);
        }
        FED_TRY(feddc_exchange_take(x, step, 0, SIZE, keep, m->sum, &m->err));
    }
    return FED_OK;
}

static void play(void *entry) {
    member *m = entry;
    const size_t size = SIZE;
    const feddc_exchange_options options = {
        .link = m->link, .place = m->place, .tensor = &size, .tensors = 1};
    feddc_exchange *x = NULL;
    m->status = feddc_exchange_open(&options, &x, &m->err);
    if (m->status == FED_OK) {
        m->status = work(m, x);
        feddc_exchange_close(x, m->status == FED_OK);
    }
}

/* Exchange two steps and check all sums. Returns the number of messages that look() counted. */
static uint64_t run(const char *link, uint32_t size, uint32_t begun, atomic_bool *looked) {
    member m[RANKS] = {0};
    link_group group;
    link_group_open(&group, feddc_link_named(link), size);
    for (uint32_t r = 0; r < size; r++) {
        m[r].link = feddc_link_named(link);
        m[r].place = group.place[r];
        m[r].rank = r;
        m[r].begun = begun;
        m[r].looked = looked;
        m[r].grad = malloc(SIZE * sizeof(float));
        m[r].sum = calloc(SIZE, sizeof(float));
        assert_true(m[r].grad != NULL && m[r].sum != NULL);
        for (size_t i = 0; i < SIZE; i++) {
            m[r].grad[i] = (float)(i % 1000 + r);
        }
    }
    link_group_run(size, play, m, sizeof *m);
    for (uint32_t r = 0; r < size; r++) {
        assert_string_equal(m[r].err.text, "");
        for (size_t i = 0; i < SIZE; i++) {
            const size_t wanted = size * (i % 1000) + size * (size - 1) / 2;
            assert_true(m[r].sum[i] == (float)wanted);
        }
        free(m[r].grad);
        free(m[r].sum);
    }
    link_group_close(&group);
    return m[0].messages;
}

FED_TEST(ranks_may_put_their_buckets_in_in_other_orders) {
    run("threads", RANKS, 0, NULL);
    run("tcp", RANKS, 0, NULL);
}

FED_TEST(later_buckets_wait_for_the_first_ones) {
    atomic_bool looked = false;
    assert_int_equal(run("threads", 2, 8, &looked), 8);
}

/* Sums would wait in a line's queue behind all the gradients that are under way. */
FED_TEST(over_tcp_fewer_buckets_are_under_way) {
    atomic_bool looked = false;
    assert_int_equal(run("tcp", 2, 3, &looked), 3);
}

static void close_link(void *self, bool orderly) {
    (void)self, (void)orderly;
}

static void close_collective(void *self) {
    (void)self;
}

/* An engine that finds these orders, and then ends. Both buckets have their gradients of step 1;
 * bucket 1 could not begin before its sum of step 0 was taken. */
typedef struct orders {
    feddc_engine engine;
    uint32_t begun[2], count;
} orders;

static fed_status end_engine(void *self, int ms, feddc_event *event, fed_error *err) {
    (void)self, (void)ms, (void)event;
    return fed_fail(err, FED_EIO, "the test ends the engine");
}

static fed_status note_begin(void *self, uint32_t step, uint32_t bucket, const float *grad,
                             bool plain, fed_error *err) {
    orders *o = self;
    (void)grad, (void)plain, (void)err;
    assert_int_equal(step, 1);
    assert_true(o->count < 2);
    o->begun[o->count++] = bucket;
    return FED_OK;
}

FED_TEST(the_bucket_that_is_taken_last_is_not_the_next_steps_first) {
    static const feddc_link_vtable link = {.wait = end_engine, .close = close_link};
    static const feddc_collective_vtable collective = {.begin = note_begin,
                                                       .close = close_collective};
    const float grad = 1;
    const feddc_cell over = {.begun = true, .started = true};
    const feddc_cell ready = {.step = 1, .begun = true, .plain = true, .grad = &grad, .left = 1};
    feddc_bucket bucket[2] = {{.offset = 1, .n = 1}, {.offset = 0, .n = 1}};
    feddc_cell cell[2 * FEDDC_AHEAD] = {over, over, ready, ready};
    feddc_order order[3] = {{.bucket = 1, .step = 0, .begin = false},
                            {.bucket = 0, .step = 1, .begin = true},
                            {.bucket = 1, .step = 1, .begin = true}};
    bool busy[2] = {false, true};
    orders o = {.engine = {.link = &link,
                           .collective = &collective,
                           .collective_self = &o,
                           .plan = {.n = 2, .buckets = 2, .shards = 1, .bucket = bucket},
                           .ranks = 2,
                           .workers = 2,
                           .window = 8,
                           .cell = cell,
                           .order = order,
                           .orders = 3,
                           .order_count = 3,
                           .busy = busy}};
    pthread_mutex_init(&o.engine.lock, NULL);
    pthread_cond_init(&o.engine.changed, NULL);
    (void)feddc_engine_run(&o.engine);
    assert_int_equal(o.count, 2);
    assert_int_equal(o.begun[0], 0);
    assert_int_equal(o.begun[1], 1);
    pthread_mutex_destroy(&o.engine.lock);
    pthread_cond_destroy(&o.engine.changed);
}

typedef struct farewell {
    feddc_engine engine;
    uint32_t left;
    bool ended[2]; /* whether the engine had ended after one worker left, and after both */
} farewell;

static fed_status wait_for_farewell(void *self, int ms, feddc_event *event, fed_error *err) {
    farewell *f = self;
    (void)ms;
    if (f->left > 0) {
        f->ended[f->left - 1] = f->engine.workers_gone;
    }
    if (f->left == 2) {
        return fed_fail(err, FED_EIO, "the test ends the engine");
    }
    *event = (feddc_event){.kind = FEDDC_GONE, .peer = f->left++, .orderly = true};
    return FED_OK;
}

FED_TEST(an_aggregator_serves_until_its_last_worker_has_left) {
    static const feddc_link_vtable link = {.wait = wait_for_farewell, .close = close_link};
    static const feddc_collective_vtable collective = {.close = close_collective};
    bool gone[3] = {false};
    farewell f = {.engine = {.link = &link,
                             .link_self = &f,
                             .collective = &collective,
                             .rank = 2,
                             .ranks = 3,
                             .workers = 2,
                             .gone = gone}};
    pthread_mutex_init(&f.engine.lock, NULL);
    pthread_cond_init(&f.engine.changed, NULL);
    (void)feddc_engine_run(&f.engine);
    assert_false(f.ended[0]);
    assert_true(f.ended[1]);
    pthread_mutex_destroy(&f.engine.lock);
    pthread_cond_destroy(&f.engine.changed);
}

int main(void) {
    alarm(120); /* ends an engine that waits for ever */
    return fed_cases_run(NULL, NULL);
}
