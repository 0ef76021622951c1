/* The engine's thread: passes the caller's orders and the link's events to the collective. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fedcodec/bursts.h"

enum {
    PATIENCE_MS = 200, /* most time to wait for an event of the link */
    POLL_NS = 20000,   /* pause between polls of the collective while the link has no event */
    GROWTH = 64,
    COUNT_EVERY = 16, /* with a NIC, values that became 0 are counted in one bucket of 16 */
    /* A bucket waits while engine.window earlier buckets with so many values are under way. */
    UNDER_WAY_VALUES = 1 << 15,
};
static const size_t NONE = (size_t)-1;

uint64_t feddc_engine_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

feddc_cell *feddc_engine_cell(feddc_engine *e, uint32_t step, uint32_t bucket) {
    return &e->cell[(size_t)(step % FEDDC_AHEAD) * e->plan.buckets + bucket];
}

uint8_t feddc_engine_how(feddc_engine *e, uint32_t step, uint32_t bucket) {
    pthread_mutex_lock(&e->lock);
    const uint8_t how = feddc_engine_cell(e, step, bucket)->how;
    pthread_mutex_unlock(&e->lock);
    return how;
}

void feddc_engine_fail(feddc_engine *e, const fed_error *err) {
    if (e->failure.status == FED_OK) {
        e->failure = *err;
    }
    pthread_cond_broadcast(&e->changed);
}

static fed_status new_sending(feddc_engine *e, size_t *index) {
    if (e->free_sending == NONE) {
        size_t more = e->sendings + GROWTH;
        feddc_sending *grown = realloc(e->sending, more * sizeof *grown);
        if (grown == NULL) {
            return FED_ENOMEM;
        }
        e->sending = grown;
        for (size_t k = more; k-- > e->sendings;) {
            grown[k].next = e->free_sending;
            e->free_sending = k;
        }
        e->sendings = more;
    }
    *index = e->free_sending;
    e->free_sending = e->sending[*index].next;
    return FED_OK;
}

static bool lies_in_gradient(feddc_engine *e, const feddc_head *head, const void *data) {
    const feddc_cell *cell = feddc_engine_cell(e, head->step, head->bucket);
    const char *begin = (const char *)cell->grad, *at = data;
    return begin != NULL && e->values.gpu == NULL && cell->step == head->step && at >= begin &&
           at < begin + e->plan.bucket[head->bucket].n * sizeof(float);
}

fed_status feddc_engine_send(feddc_engine *e, uint32_t to, const feddc_head *head, const void *data,
                             size_t len, uint64_t token, fed_error *err) {
    size_t index;
    if (new_sending(e, &index) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %zu messages on their way",
                        e->sendings);
    }
    pthread_mutex_lock(&e->lock);
    bool lent = lies_in_gradient(e, head, data);
    feddc_engine_cell(e, head->step, head->bucket)->lent += lent;
    e->counts.sent_bytes += len + sizeof *head;
    e->counts.messages++;
    pthread_mutex_unlock(&e->lock);
    e->sending[index] = (feddc_sending){.token = token,
                                        .bucket = head->bucket,
                                        .step = head->step,
                                        .lent = lent,
                                        .begin = feddc_engine_ns(),
                                        .len = len,
                                        .to = to};
    return e->link->send(e->link_self, to, head, data, len, index, err);
}

void feddc_engine_release(feddc_engine *e, const feddc_event *event) {
    e->link->release(e->link_self, event);
}

/* Call it with the lock held. */
static bool is_complete(const feddc_cell *cell) {
    return cell->left == 0 && cell->lent == 0;
}

static bool is_over(const feddc_cell *cell, uint32_t step) {
    return cell->step == step && cell->started && is_complete(cell);
}

static void complete_bucket(feddc_engine *e, uint32_t step, uint32_t bucket) {
    size_t slot = step % FEDDC_AHEAD;
    uint64_t now = feddc_engine_ns(), begin = feddc_engine_cell(e, step, bucket)->start;
    feddc_trace_add(e->trace, FEDDC_ROW_BUCKETS,
                    &(feddc_span){.begin = begin,
                                  .end = now,
                                  .bytes = e->plan.bucket[bucket].n * sizeof(float),
                                  .step = step,
                                  .bucket = bucket,
                                  .what = FEDDC_EXCHANGE});
    if (e->nic.kind == FEDDC_NIC_NONE) {
        const feddc_coder_counts *counts = feddc_coder_count(e->push);
        e->counts.zeroed = counts->zeroed;
        e->counts.coded = counts->coded;
        memcpy(e->counts.spread, counts->spread, sizeof counts->spread);
    }
    e->retry = true;
    while (e->first_open[slot] < e->plan.buckets &&
           is_over(feddc_engine_cell(e, step, e->first_open[slot]), step)) {
        e->first_open[slot]++;
    }
    if (++e->complete[slot] == e->plan.buckets) {
        e->first_open[slot] = 0;
        const uint64_t first = e->first_put[slot];
        e->counts.exchange_s += 1e-9 * (double)(now - (first > e->last_sum ? first : e->last_sum));
        e->last_sum = now;
        e->complete[slot] = 0;
        e->first_put[slot] = 0;
        e->counts.received_bytes += e->arrived_bytes[step % FEDDC_ARRIVALS];
        e->arrived_bytes[step % FEDDC_ARRIVALS] = 0;
    }
    pthread_cond_broadcast(&e->changed);
}

void feddc_engine_done(feddc_engine *e, uint32_t step, uint32_t bucket, uint32_t shard,
                       const float *sum) {
    if (e->rank >= e->workers) {
        return; /* an aggregator has no caller that takes sums */
    }
    pthread_mutex_lock(&e->lock);
    feddc_cell *cell = feddc_engine_cell(e, step, bucket);
    size_t at = (size_t)(step % FEDDC_AHEAD) * e->plan.buckets + bucket;
    e->result[at * e->plan.shards + shard] = sum;
    cell->left--;
    if (is_complete(cell)) {
        complete_bucket(e, step, bucket);
    }
    pthread_mutex_unlock(&e->lock);
}

void feddc_engine_spent(feddc_engine *e, feddc_what what, uint32_t step, uint32_t bucket,
                        size_t bytes, uint64_t begin) {
    feddc_span span = {.begin = begin,
                       .end = feddc_engine_ns(),
                       .bytes = bytes,
                       .step = step,
                       .bucket = bucket,
                       .what = what};
    double spent = 1e-9 * (double)(span.end - begin);
    feddc_trace_add(e->trace, FEDDC_ROW_ENGINE, &span);
    pthread_mutex_lock(&e->lock);
    feddc_exchange_counts *counts = &e->counts;
    counts->encode_s += what == FEDDC_ENCODE ? spent : 0;
    counts->decode_s += what == FEDDC_DECODE ? spent : 0;
    counts->sum_s += what == FEDDC_SUM ? spent : 0;
    pthread_mutex_unlock(&e->lock);
}

static void trace_message(feddc_engine *e, feddc_what what, uint32_t peer, uint32_t step,
                          uint32_t bucket, size_t bytes, uint64_t begin) {
    feddc_trace_add(e->trace, FEDDC_ROW_PEER + peer,
                    &(feddc_span){.begin = begin,
                                  .end = feddc_engine_ns(),
                                  .bytes = bytes,
                                  .step = step,
                                  .bucket = bucket,
                                  .what = what});
}

static bool take_order(feddc_engine *e, feddc_order *order) {
    pthread_mutex_lock(&e->lock);
    bool any = e->order_count > 0;
    if (any) {
        *order = e->order[e->order_first];
        e->order_first = (e->order_first + 1) % e->orders;
        e->order_count--;
    }
    pthread_mutex_unlock(&e->lock);
    return any;
}

/* Refuse a gradient that is not finite, unless no codec changes it. The codec does not check all
 * values: a collective may add its own rank's values without encoding them. */
static fed_status check_gradient(feddc_engine *e, uint32_t step, uint32_t bucket, const float *grad,
                                 bool plain, fed_error *err) {
    const feddc_bucket *where = &e->plan.bucket[bucket];
    bool finite = true;
    if (!plain && !feddc_coder_is_exact(e->push)) {
        FED_TRY(feddc_values_explain(&e->values,
                                     feddc_values_check(&e->values, grad, where->n, &finite), err));
    }
    return finite ? FED_OK
                  : fed_fail(err, FED_ENONFINITE,
                             "rank %u's gradient of step %u is not finite, in values %zu to %zu",
                             e->rank, step, where->offset, where->offset + where->n - 1);
}

static void count_zeros(feddc_engine *e, uint32_t step, uint32_t bucket, const float *grad,
                        bool plain) {
    if (e->nic.kind == FEDDC_NIC_NONE || plain || (step + bucket) % COUNT_EVERY != 0) {
        return;
    }
    float rounded[256];
    const size_t n = e->plan.bucket[bucket].n;
    uint64_t zeroed = 0;
    for (size_t at = 0; at < n; at += 256) {
        const size_t count = n - at < 256 ? n - at : 256;
        fedcodec_bursts_round(e->nic.e, grad + at, rounded, count);
        for (size_t i = 0; i < count; i++) {
            zeroed += grad[at + i] != 0 && rounded[i] == 0;
        }
    }
    pthread_mutex_lock(&e->lock);
    e->counts.zeroed += zeroed;
    e->counts.coded += n;
    feddc_spread_add(e->counts.spread, grad, n);
    pthread_mutex_unlock(&e->lock);
}

/* With the lock held: return whether this bucket must wait, because enough earlier buckets are
 * under way. Otherwise the first buckets' sums would queue behind the last buckets' gradients.
 * Later buckets do not count, so that ranks that put buckets in different orders do not wait for
 * each other. */
static bool is_crowded(feddc_engine *e, uint32_t step, uint32_t bucket) {
    uint32_t under_way = 0;
    size_t values = 0;
    for (uint32_t b = e->first_open[step % FEDDC_AHEAD]; b < bucket; b++) {
        const feddc_cell *cell = feddc_engine_cell(e, step, b);
        if (cell->step == step && cell->started && !is_complete(cell)) {
            under_way++;
            values += e->plan.bucket[b].n;
        }
        if (under_way >= e->window && values >= UNDER_WAY_VALUES) {
            return true;
        }
    }
    return false;
}

/* On a GPU: make the engine's stream wait for the work that the caller's stream had when the caller
 * put this bucket or took it. */
static fed_status come_after(feddc_engine *e, uint32_t bucket, fed_error *err) {
    fed_status status = FED_OK;
    if (e->caller != NULL) {
        pthread_mutex_lock(&e->lock);
        status = fed_gpu_after(e->values.stream, e->gate[bucket % FEDDC_GATES]);
        pthread_mutex_unlock(&e->lock);
    }
    return feddc_values_explain(&e->values, status, err);
}

/* Wait until the gradient is ready on the GPU, so that this time is not counted as the codec's. */
static fed_status wait_for_gradient(feddc_engine *e, uint32_t step, uint32_t bucket,
                                    fed_error *err) {
    if (e->caller == NULL) {
        return FED_OK;
    }
    const uint64_t begin = feddc_engine_ns();
    FED_TRY(come_after(e, bucket, err));
    FED_TRY(feddc_values_explain(&e->values, feddc_values_wait(&e->values), err));
    feddc_engine_spent(e, FEDDC_WAIT, step, bucket, 0, begin);
    return FED_OK;
}

/* With the lock held: return whether the bucket has a gradient that was not begun, and this is the
 * bucket's next step. A bucket that is held in one step may have its gradient of the step after
 * already: the latter begins when the sum of the former is taken. */
static bool is_next(feddc_engine *e, uint32_t step, uint32_t bucket) {
    const feddc_cell *cell = feddc_engine_cell(e, step, bucket);
    const feddc_cell *before = feddc_engine_cell(e, step + FEDDC_AHEAD - 1, bucket);
    return cell->begun && cell->step == step && cell->grad != NULL && !cell->started &&
           !e->busy[bucket] && !(before->begun && before->step + 1 == step && !before->started);
}

static fed_status begin_bucket(feddc_engine *e, uint32_t step, uint32_t bucket, fed_error *err) {
    pthread_mutex_lock(&e->lock);
    feddc_cell *cell = feddc_engine_cell(e, step, bucket);
    bool turn = is_next(e, step, bucket);
    if (turn && is_crowded(e, step, bucket)) {
        e->held = true;
        turn = false;
    }
    if (turn) {
        cell->started = true;
        cell->start = feddc_engine_ns();
    }
    const float *grad = cell->grad;
    bool plain = cell->plain;
    pthread_mutex_unlock(&e->lock);
    if (!turn) {
        return FED_OK;
    }
    e->busy[bucket] = true;
    FED_TRY(wait_for_gradient(e, step, bucket, err));
    FED_TRY(check_gradient(e, step, bucket, grad, plain, err));
    count_zeros(e, step, bucket, grad, plain);
    return e->collective->begin(e->collective_self, step, bucket, grad, plain, err);
}

static fed_status begin_held(feddc_engine *e, fed_error *err) {
    bool held = false;
    e->retry = false;
    for (uint32_t slot = 0; slot < FEDDC_AHEAD; slot++) {
        e->held = false;
        for (uint32_t b = e->first_open[slot]; b < e->plan.buckets && !e->held; b++) {
            pthread_mutex_lock(&e->lock);
            const uint32_t step = feddc_engine_cell(e, slot, b)->step;
            pthread_mutex_unlock(&e->lock);
            FED_TRY(begin_bucket(e, step, b, err));
        }
        held = held || e->held;
    }
    e->held = held;
    return FED_OK;
}

static fed_status follow(feddc_engine *e, feddc_order order, fed_error *err) {
    if (order.begin) {
        return begin_bucket(e, order.step, order.bucket, err);
    }
    FED_TRY(come_after(e, order.bucket, err));
    if (e->collective->taken != NULL) {
        FED_TRY(e->collective->taken(e->collective_self, order.step, order.bucket, err));
    }
    e->busy[order.bucket] = false;
    /* The bucket's next gradient may be here already. It begins with the held buckets, after all
     * orders, and so in the order of buckets: the bucket that is taken last shall not be first. */
    pthread_mutex_lock(&e->lock);
    const bool ready = is_next(e, order.step + 1, order.bucket);
    pthread_mutex_unlock(&e->lock);
    e->held = e->held || ready;
    e->retry = e->retry || ready;
    return FED_OK;
}

static fed_status on_sent(feddc_engine *e, uint64_t index, fed_error *err) {
    feddc_sending sending = e->sending[index];
    e->sending[index].next = e->free_sending;
    e->free_sending = (size_t)index;
    trace_message(e, FEDDC_SEND, sending.to, sending.step, sending.bucket, sending.len,
                  sending.begin);
    if (sending.lent) {
        pthread_mutex_lock(&e->lock);
        feddc_cell *cell = feddc_engine_cell(e, sending.step, sending.bucket);
        cell->lent--;
        if (is_complete(cell)) {
            complete_bucket(e, sending.step, sending.bucket);
        }
        pthread_mutex_unlock(&e->lock);
    }
    return e->collective->sent != NULL ? e->collective->sent(e->collective_self, sending.token, err)
                                       : FED_OK;
}

static fed_status check_head(feddc_engine *e, const feddc_event *event, fed_error *err) {
    const feddc_head *head = &event->head;
    if (head->bucket >= e->plan.buckets || head->part >= e->plan.shards) {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u sent shard %u of bucket %u, but the plan has %u shards of %u "
                        "buckets: give all ranks the same model and options",
                        event->peer, head->part, head->bucket, e->plan.shards, e->plan.buckets);
    }
    return FED_OK;
}

static fed_status on_gone(feddc_engine *e, const feddc_event *event, fed_error *err) {
    if (!event->orderly) {
        return fed_fail(err, FED_EIO,
                        "rank %u is gone: its process has died, was stopped, or has given up",
                        event->peer);
    }
    e->gone[event->peer] = true;
    bool left = false;
    for (uint32_t r = 0; r < e->workers; r++) {
        left = left || !e->gone[r];
    }
    if (!left) {
        pthread_mutex_lock(&e->lock);
        e->workers_gone = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
    }
    return FED_OK;
}

static fed_status on_event(feddc_engine *e, const feddc_event *event, fed_error *err) {
    switch (event->kind) {
    case FEDDC_ARRIVED:
        pthread_mutex_lock(&e->lock);
        /* A worker counts received bytes by the message's step, which may not have begun here, so
         * that all ranks count the same messages. */
        uint64_t *received = e->rank < e->workers
                                 ? &e->arrived_bytes[event->head.step % FEDDC_ARRIVALS]
                                 : &e->counts.received_bytes;
        *received += event->len + sizeof event->head;
        e->newest = e->heard && e->newest > event->head.step ? e->newest : event->head.step;
        e->heard = true;
        pthread_mutex_unlock(&e->lock);
        FED_TRY(check_head(e, event, err));
        trace_message(e, FEDDC_RECEIVE, event->peer, event->head.step, event->head.bucket,
                      event->len, feddc_engine_ns());
        return e->collective->arrived(e->collective_self, event, err);
    case FEDDC_SENT:
        return on_sent(e, event->token, err);
    case FEDDC_GONE:
        return on_gone(e, event, err);
    case FEDDC_NOTHING:
    case FEDDC_WOKEN:
        break;
    }
    return FED_OK;
}

/* Fail if a bucket waits for a rank that has left. */
static fed_status look_around(feddc_engine *e, fed_error *err) {
    for (uint32_t b = 0; b < e->plan.buckets; b++) {
        uint32_t r = e->collective->waits_for(e->collective_self, b);
        if (r < e->ranks && e->gone[r]) {
            return fed_fail(err, FED_EIO,
                            "rank %u has left, but bucket %u still waits for it: all workers must "
                            "make the same number of steps",
                            r, b);
        }
        pthread_mutex_lock(&e->lock);
        for (uint32_t slot = 0; slot < FEDDC_AHEAD; slot++) {
            feddc_engine_cell(e, slot, b)->waits_for = r;
        }
        pthread_mutex_unlock(&e->lock);
    }
    return FED_OK;
}

static bool is_closing(feddc_engine *e) {
    pthread_mutex_lock(&e->lock);
    bool closing = (e->closing && ((e->order_count == 0 && !e->held) || !e->orderly)) ||
                   e->failure.status != FED_OK;
    pthread_mutex_unlock(&e->lock);
    return closing;
}

/* Begin held buckets and poll the collective. *under_way: the collective has work that ends without
 * an event of the link. */
static fed_status go_on(feddc_engine *e, bool *under_way, fed_error *err) {
    *under_way = false;
    do {
        while (e->held && e->retry) {
            FED_TRY(begin_held(e, err));
        }
        if (e->collective->poll != NULL) {
            FED_TRY(e->collective->poll(e->collective_self, under_way, err));
        }
    } while (e->held && e->retry);
    return FED_OK;
}

static fed_status turn(feddc_engine *e, fed_error *err) {
    const struct timespec pause = {.tv_nsec = POLL_NS};
    feddc_order order;
    bool under_way;
    while (take_order(e, &order)) {
        FED_TRY(follow(e, order, err));
    }
    FED_TRY(go_on(e, &under_way, err));
    if (is_closing(e)) {
        return FED_OK;
    }
    feddc_event event = {.kind = FEDDC_NOTHING};
    FED_TRY(e->link->wait(e->link_self, under_way ? 0 : PATIENCE_MS, &event, err));
    FED_TRY(on_event(e, &event, err));
    if (event.kind == FEDDC_NOTHING && under_way) {
        (void)nanosleep(&pause, NULL);
    }
    return event.kind == FEDDC_NOTHING ? look_around(e, err) : FED_OK;
}

void *feddc_engine_run(void *engine) {
    feddc_engine *e = engine;
    fed_error err = {0};
    fed_status status = FED_OK;
    while (status == FED_OK && !is_closing(e)) {
        status = turn(e, &err);
    }
    pthread_mutex_lock(&e->lock);
    if (status != FED_OK) {
        err.status = status;
        feddc_engine_fail(e, &err);
    }
    bool orderly = e->orderly && e->failure.status == FED_OK;
    e->stopped = true; /* from now on no other thread wakes the link */
    while (e->using > 0) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    /* close the link first: it still reads the collective's messages */
    e->link->close(e->link_self, orderly);
    e->collective->close(e->collective_self);
    return NULL;
}
