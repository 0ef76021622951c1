/* The exchange's public functions, called in the caller's thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feddc/exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/datacenter/engine.h"
#include "fedclient/datacenter/inputs.h"
#include "fedclient/datacenter/nic/nic.h"
#include "fedcodec/codec_vtable.h"

struct feddc_exchange {
    feddc_engine engine;
};

/* eden with one bit lengthens values by a quarter, with two bits by a sixteenth. */
#define STRETCH_MOST 1.1

static bool expands(const fedcodec *codec) {
    const char *name = fedcodec_name(codec->vtable);
    return strcmp(name, "3lc") == 0 || strcmp(name, "stoch3") == 0 ||
           (codec->vtable->stretch != NULL && codec->vtable->stretch(codec->param) > STRETCH_MOST);
}

bool feddc_codec_expands(const char *spec) {
    fedcodec codec;
    return spec != NULL && fedcodec_parse(spec, &codec, NULL) == FED_OK && expands(&codec);
}

static fed_status check_fit(const feddc_engine *e, const feddc_exchange_options *o,
                            fed_error *err) {
    const char *name = e->collective->name;
    if (e->collective->recodes && expands(feddc_coder_codec(e->push))) {
        return fed_fail(
            err, FED_EINVAL,
            "the codec %s cannot be used with the collective %s, which encodes partial sums again "
            "at each hop: the sum's error would grow with the ranks (3lc:s=1 at 8 workers: 3.5 "
            "times the sum, with owners 0.11). Take the collective owners or gather",
            o->codec, name);
    }
    if (o->late > 0 && (e->ranks == e->workers || strcmp(name, "owners") != 0)) {
        return fed_fail(err, FED_EINVAL,
                        "backup workers need aggregators, which complete a sum without them: take "
                        "the collective owners:aggregators=1");
    }
    if (o->late >= e->workers) {
        return fed_fail(
            err, FED_EINVAL,
            "%u backup workers of %u workers are too many: a sum needs one worker at least",
            o->late, e->workers);
    }
    if (o->late > 0 && !feddc_coder_has_residual(e->push)) {
        return fed_fail(err, FED_EINVAL,
                        "backup workers need a codec with a residual, which keeps a gradient that "
                        "comes too late: %s has none, take for example sbc or topk",
                        fedcodec_name(feddc_coder_codec(e->push)->vtable));
    }
    return FED_OK;
}

static fed_status check_nic(const feddc_engine *e, fed_error *err) {
    if (e->nic.kind == FEDDC_NIC_NONE) {
        return FED_OK;
    }
    if (e->values.gpu != NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "a nic compresses float32 values from host memory, but the gradients are on %s: leave "
            "out the device, or take the codec inceptionn instead of the nic",
            fed_gpu_info_of(e->values.gpu)->name);
    }
    if (!feddc_coder_is_exact(e->push) || !feddc_coder_is_exact(e->pull)) {
        const feddc_coder *coder = feddc_coder_is_exact(e->push) ? e->pull : e->push;
        return fed_fail(err, FED_EINVAL,
                        "a nic compresses float32 values, but the codec %s has compressed them "
                        "already: leave out the codec or the nic",
                        fedcodec_name(feddc_coder_codec(coder)->vtable));
    }
    if (e->nic.kind == FEDDC_NIC_PACKET && e->link != NULL && strcmp(e->link->name, "tcp") != 0) {
        return fed_fail(err, FED_EINVAL,
                        "the nic packet compresses TCP packets, so it needs link tcp, not link %s: "
                        "take link tcp, or the nic inline",
                        e->link->name);
    }
    return FED_OK;
}

static fed_status check_owner(const feddc_engine *e, fed_error *err) {
    if (e->owner == NULL) {
        return FED_OK;
    }
    if (!e->collective->owned) {
        return fed_fail(err, FED_EINVAL,
                        "an optimizer at the owners needs a rank that has the whole sum, and the "
                        "collective %s has none: take owners or owners:aggregators=1 (star)",
                        e->collective->name);
    }
    if (e->nic.kind != FEDDC_NIC_NONE || e->values.gpu != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "an optimizer at the owners works on values in host memory that no nic "
                        "rounds: leave out the %s, or take sums as pulls",
                        e->values.gpu != NULL ? "device" : "nic");
    }
    return FED_OK;
}

static fed_status use_place(feddc_engine *e, const feddc_place *place, fed_error *err) {
    if (place->size == 0 || place->size > FEDDC_RANKS || place->rank >= place->size) {
        return fed_fail(err, FED_EINVAL, "rank %u of %u: a worker group has 1 to %d ranks, from 0",
                        place->rank, place->size, FEDDC_RANKS);
    }
    uint32_t aggregators =
        e->collective->aggregators != NULL ? e->collective->aggregators(e->param) : 0;
    if (aggregators >= place->size) {
        return fed_fail(err, FED_EINVAL,
                        "%u aggregators of %u ranks: there is no worker left; start more ranks, or "
                        "take fewer aggregators",
                        aggregators, place->size);
    }
    e->rank = place->rank;
    e->ranks = place->size;
    e->workers = place->size - aggregators;
    return FED_OK;
}

static fed_status make_cells(feddc_engine *e, fed_error *err) {
    size_t cells = (size_t)FEDDC_AHEAD * e->plan.buckets;
    e->orders = 2 * cells;
    e->cell = calloc(cells, sizeof *e->cell);
    e->result = calloc(cells * e->plan.shards, sizeof *e->result);
    e->order = calloc(e->orders, sizeof *e->order);
    e->gone = calloc(e->ranks, sizeof *e->gone);
    e->busy = calloc(e->plan.buckets, sizeof *e->busy);
    e->free_sending = (size_t)-1;
    if (!e->cell || !e->result || !e->order || !e->gone || !e->busy) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the sums of %u buckets",
                        e->plan.buckets);
    }
    e->replica = e->owner != NULL ? calloc(e->plan.n, sizeof *e->replica) : NULL;
    if (e->owner != NULL && e->replica == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a model of %zu values", e->plan.n);
    }
    return feddc_values_explain(&e->values, feddc_values_new(&e->values, e->plan.n, &e->sum), err);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool is_float32(const char *spec) {
    return spec == NULL || strcmp(spec, "float32") == 0;
}

enum { GATHERS = 8 }; /* on a device: most ranks that gather by default with any push codec */
/* with aggregators a bucket has 1/STAR_PARTS of the gradient, from STAR_LEAST to STAR_MOST bytes */
enum { STAR_PARTS = 64, STAR_LEAST = 32 << 10, STAR_MOST = 1 << 20 };
enum { OWNERS_TCP = 384 << 10 }; /* bytes of a bucket of float32 that goes to owners over TCP */
/* buckets under way at a time: over TCP with aggregators, over TCP with float32, and else */
enum { WINDOW_STAR = 2, WINDOW_FLOATS = 3, WINDOW = 8 };

static bool is_tcp(const feddc_engine *e) {
    return e->link != NULL && strcmp(e->link->name, "tcp") == 0;
}

/* Return the bytes of a bucket, 0 for the default. An aggregator sends a sum only after all
 * workers' gradients came, so small buckets let sums leave while gradients still arrive. A codec
 * keeps the default, because codecs lose more on small slices than small buckets save. So do a
 * ring and a nic, where the buckets decide who adds in which order, and who rounds: links shall not
 * change a bit. */
static size_t bucket_size(const feddc_engine *e, const feddc_exchange_options *o) {
    if (o->bucket > 0 || !is_float32(o->codec) || !is_float32(o->pull)) {
        return o->bucket;
    }
    if (e->ranks == e->workers) {
        const bool owners = strcmp(e->collective->name, "owners") == 0;
        return owners && is_tcp(e) && o->nic == NULL ? OWNERS_TCP : 0;
    }
    size_t n = 0;
    for (size_t k = 0; k < o->tensors; k++) {
        n += o->tensor[k];
    }
    const size_t part = n * sizeof(float) / STAR_PARTS;
    return larger(STAR_LEAST, smaller(part, STAR_MOST));
}

/* Return engine.window. A line sends in the order of its queue, where sums wait behind all the
 * gradients that are under way. Fewer gradients under way leave less of a queue. */
static uint32_t window_for(const feddc_engine *e, const feddc_exchange_options *o) {
    const bool floats = is_float32(o->codec) || is_float32(o->pull);
    return !is_tcp(e)              ? WINDOW
           : e->ranks > e->workers ? WINDOW_STAR
           : floats                ? WINDOW_FLOATS
                                   : WINDOW;
}

static size_t largest_message(const feddc_plan *plan) {
    size_t n = 0;
    for (size_t k = 0; k < (size_t)plan->buckets * plan->shards; k++) {
        n = larger(n, plan->shard[k].n);
    }
    return n * sizeof(float);
}

const char *feddc_collective_preset(uint32_t ranks, const char *codec, const char *pull,
                                    bool device) {
    static const char *const sparse[] = {"sbc", "stc", "topk", "dgc"};
    bool gathers = ranks <= GATHERS;
    for (size_t k = 0; codec != NULL && k < sizeof sparse / sizeof sparse[0]; k++) {
        const size_t len = strlen(sparse[k]);
        gathers = gathers || (strncmp(codec, sparse[k], len) == 0 &&
                              (codec[len] == '\0' || codec[len] == ':'));
    }
    return device && gathers && is_float32(pull) ? "gather" : "owners";
}

static fed_status open_values(feddc_engine *e, const feddc_exchange_options *o, fed_error *err) {
    e->caller = o->stream;
    FED_TRY(feddc_values_open(o->device, NULL, largest_message(&e->plan) / sizeof(float),
                              &e->values, err));
    fed_status status = FED_OK;
    for (size_t k = 0; e->caller != NULL && k < FEDDC_GATES && status == FED_OK; k++) {
        status = fed_gpu_stream_new(o->device, NULL, &e->gate[k]);
    }
    return feddc_values_explain(&e->values, status, err);
}

static fed_status make(feddc_engine *e, const feddc_exchange_options *o, const feddc_place *place,
                       fed_error *err) {
    const char *spec = o->collective != NULL ? o->collective
                                             : feddc_collective_preset(place->size, o->codec,
                                                                       o->pull, o->device != NULL);
    if ((o->stream != NULL) != (o->device != NULL)) {
        return fed_fail(
            err, FED_EINVAL,
            "an exchange on a device needs two options: device, and stream, a stream of "
            "this device in which gradients are written and sums read");
    }
    FED_TRY(feddc_collective_parse(spec, &e->collective, e->param, err));
    FED_TRY(use_place(e, place, err));
    uint32_t shards = e->collective->shards != NULL ? e->collective->shards(e->param, e->ranks) : 1;
    FED_TRY(
        feddc_plan_make(o->tensor, o->tensors, o->small, bucket_size(e, o), shards, &e->plan, err));
    e->window = window_for(e, o);
    FED_TRY(open_values(e, o, err));
    FED_TRY(feddc_coder_new(o->codec, &e->plan, &e->values, &e->push, err));
    FED_TRY(feddc_coder_new(o->pull, &e->plan, &e->values, &e->pull, err));
    FED_TRY(feddc_nic_parse(o->nic, &e->nic, err));
    FED_TRY(check_nic(e, err));
    FED_TRY(check_fit(e, o, err));
    FED_TRY(check_owner(e, err));
    return make_cells(e, err);
}

static void free_all(feddc_exchange *x) {
    feddc_engine *e = &x->engine;
    feddc_coder_free(e->push);
    feddc_coder_free(e->pull);
    feddc_values_free(&e->values, e->sum);
    for (size_t k = 0; k < FEDDC_GATES; k++) {
        fed_gpu_stream_free(e->gate[k]);
    }
    feddc_values_close(&e->values);
    feddc_plan_free(&e->plan);
    free(e->replica);
    free(e->cell);
    free(e->result);
    free(e->order);
    free(e->gone);
    free(e->busy);
    free(e->sending);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    free(x);
}

static fed_status open_collective(feddc_engine *e, const feddc_exchange_options *o,
                                  fed_error *err) {
    feddc_collective_job job = {.engine = e,
                                .rank = e->rank,
                                .ranks = e->ranks,
                                .workers = e->workers,
                                .late = o->late,
                                .param = e->param,
                                .plan = &e->plan,
                                .push = e->push,
                                .pull = e->pull,
                                .nic = e->ranks > 1 ? e->nic.e : 0,
                                .values = &e->values,
                                .sum = e->sum,
                                .owner = e->owner,
                                .replica = e->replica};
    FED_TRY(e->collective->open(&job, &e->collective_self, err));
    if (pthread_create(&e->thread, NULL, feddc_engine_run, e) != 0) {
        e->collective->close(e->collective_self);
        return fed_fail(
            err, FED_EBUSY,
            "the system gives no thread for the exchange: allow more threads (ulimit -u)");
    }
    e->started = true;
    return FED_OK;
}

static feddc_exchange *new_exchange(const feddc_exchange_options *options, fed_error *err) {
    feddc_exchange *x = calloc(1, sizeof *x);
    if (x == NULL) {
        fed_fail(err, FED_ENOMEM, "out of memory for an exchange");
        return NULL;
    }
    x->engine.link = options->link;
    x->engine.trace = options->trace;
    x->engine.late = options->late;
    x->engine.owner = options->owner;
    pthread_mutex_init(&x->engine.lock, NULL);
    pthread_cond_init(&x->engine.changed, NULL);
    return x;
}

fed_status feddc_exchange_check(const feddc_exchange_options *options, uint32_t ranks,
                                fed_error *err) {
    static const size_t some = 1024;
    feddc_exchange_options o = {.link = options->link,
                                .collective = options->collective,
                                .codec = options->codec,
                                .pull = options->pull,
                                .nic = options->nic,
                                .late = options->late,
                                .owner = options->owner,
                                .device = options->device,
                                .stream = options->stream,
                                .place = {.size = ranks},
                                .tensor = &some,
                                .tensors = 1};
    feddc_exchange *x = new_exchange(&o, err);
    FED_REQUIRE(x != NULL, FED_ENOMEM);
    fed_status status = make(&x->engine, &o, &o.place, err);
    free_all(x);
    return status;
}

static fed_status meet(feddc_engine *e, const feddc_exchange_options *o, feddc_place *place,
                       fed_error *err) {
    if (e->link->find != NULL) {
        FED_TRY(e->link->find(place, err));
    }
    FED_TRY(make(e, o, place, err));
    place->mark = e->nic.kind == FEDDC_NIC_PACKET;
    FED_TRY(e->link->open(place, &e->link_self, err));
    fed_status status = FED_OK;
    if (e->nic.kind == FEDDC_NIC_INLINE) {
        status = feddc_nic_wrap(&e->link, &e->link_self, e->nic.e, largest_message(&e->plan), err);
    }
    if (status == FED_OK) {
        status = open_collective(e, o, err);
    }
    if (status != FED_OK) {
        e->link->close(e->link_self, false);
    }
    return status;
}

fed_status feddc_exchange_open(const feddc_exchange_options *options, feddc_exchange **exchange,
                               fed_error *err) {
    feddc_place place = options->place;
    feddc_exchange *x = new_exchange(options, err);
    FED_REQUIRE(x != NULL, FED_ENOMEM);
    fed_status status = meet(&x->engine, options, &place, err);
    if (status != FED_OK) {
        free_all(x);
        return status;
    }
    *exchange = x;
    return FED_OK;
}

void feddc_exchange_close(feddc_exchange *x, bool orderly) {
    if (x == NULL) {
        return;
    }
    feddc_engine *e = &x->engine;
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    e->orderly = orderly;
    if (!e->stopped) {
        e->link->wake(e->link_self);
    }
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    free_all(x);
}

/* With the lock held: return a bucket's cell. A cell of an earlier step is cleared first. */
static feddc_cell *fresh_cell(feddc_engine *e, uint32_t step, uint32_t bucket, unsigned how) {
    feddc_cell *cell = feddc_engine_cell(e, step, bucket);
    if (!cell->begun || cell->step != step) {
        assert(!cell->begun || cell->claimed);
        *cell = (feddc_cell){.step = step,
                             .begun = true,
                             .plain = (how & FEDDC_PLAIN) != 0,
                             .how = (uint8_t)(how & FEDDC_HOW),
                             .missing = e->plan.bucket[bucket].n,
                             .left = e->plan.shards};
    }
    return cell;
}

/* With the lock held: give the engine an order, and wake it. On a GPU, the engine's work on this
 * bucket begins after the work that is in the caller's stream now. */
static void give_order(feddc_engine *e, feddc_order order) {
    fed_error err;
    const fed_status marked =
        e->caller != NULL ? fed_gpu_after(e->gate[order.bucket % FEDDC_GATES], e->caller) : FED_OK;
    if (feddc_values_explain(&e->values, marked, &err) != FED_OK) {
        feddc_engine_fail(e, &err);
        e->link->wake(e->link_self);
        return;
    }
    e->order[(e->order_first + e->order_count++) % e->orders] = order;
    if (e->order_count == 1) { /* otherwise the engine was woken already */
        e->link->wake(e->link_self);
    }
}

/* With the lock held: note that the caller has put values begin to end - 1, all in this bucket. */
static void put_part(feddc_engine *e, uint32_t step, uint32_t bucket, size_t begin, size_t end,
                     const float *base, unsigned how) {
    feddc_cell *cell = fresh_cell(e, step, bucket, how);
    assert(end - begin <= cell->missing);
    cell->missing -= end - begin;
    if (e->first_put[step % FEDDC_AHEAD] == 0) {
        e->first_put[step % FEDDC_AHEAD] = feddc_engine_ns();
    }
    if (cell->missing == 0) {
        cell->grad = base + e->plan.bucket[bucket].offset;
        give_order(e, (feddc_order){.bucket = bucket, .step = step, .begin = true});
    }
}

static void put(feddc_exchange *x, uint32_t step, size_t offset, const float *grad, size_t n,
                unsigned how) {
    feddc_engine *e = &x->engine;
    assert(n > 0 && offset + n <= e->plan.n && e->rank < e->workers);
    uint32_t first = feddc_plan_bucket_of(&e->plan, offset + n - 1);
    uint32_t last = feddc_plan_bucket_of(&e->plan, offset);
    pthread_mutex_lock(&e->lock);
    for (uint32_t b = first; b <= last && !e->stopped; b++) {
        const feddc_bucket *bucket = &e->plan.bucket[b];
        put_part(e, step, b, larger(offset, bucket->offset),
                 smaller(offset + n, bucket->offset + bucket->n), grad - offset, how);
    }
    pthread_mutex_unlock(&e->lock);
}

void feddc_exchange_put(feddc_exchange *x, uint32_t step, size_t offset, const float *grad,
                        size_t n, bool plain) {
    put(x, step, offset, grad, n, plain ? FEDDC_PLAIN : 0);
}

static fed_status wait_for(feddc_engine *e, uint32_t step, uint32_t bucket, fed_error *err) {
    const feddc_cell *cell = feddc_engine_cell(e, step, bucket);
    uint64_t begin = feddc_engine_ns();
    while (e->failure.status == FED_OK && !(cell->started && cell->left == 0 && cell->lent == 0)) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    e->counts.wait_s += 1e-9 * (double)(feddc_engine_ns() - begin);
    if (e->failure.status != FED_OK) {
        return fed_fail(err, e->failure.status, "step %u, bucket %u: %s", step, bucket,
                        e->failure.text);
    }
    return FED_OK;
}

static fed_status take_bucket(feddc_engine *e, uint32_t step, uint32_t bucket,
                              void (*use)(void *user, size_t offset, const float *sum, size_t n),
                              void *user, fed_error *err) {
    feddc_cell *cell = feddc_engine_cell(e, step, bucket);
    pthread_mutex_lock(&e->lock);
    fed_status status = FED_OK;
    bool mine = cell->begun && cell->step == step && !cell->claimed;
    /* after a failure, put may not have begun the bucket */
    if (mine || e->failure.status != FED_OK) {
        status = wait_for(e, step, bucket, err);
        cell->claimed = status == FED_OK;
        e->using += status == FED_OK;
    }
    pthread_mutex_unlock(&e->lock);
    if (!mine || status != FED_OK) {
        return status;
    }
    size_t at = (size_t)(step % FEDDC_AHEAD) * e->plan.buckets + bucket;
    for (uint32_t k = 0; k < e->plan.shards; k++) {
        const feddc_shard *shard = feddc_plan_shard(&e->plan, bucket, k);
        if (shard->n > 0) {
            use(user, shard->offset, e->result[at * e->plan.shards + k], shard->n);
        }
    }
    pthread_mutex_lock(&e->lock);
    e->using --;
    if (e->stopped) {
        pthread_cond_broadcast(&e->changed);
    } else {
        give_order(e, (feddc_order){.bucket = bucket, .step = step, .begin = false});
    }
    pthread_mutex_unlock(&e->lock);
    return FED_OK;
}

fed_status feddc_exchange_take(feddc_exchange *x, uint32_t step, size_t offset, size_t n,
                               void (*use)(void *user, size_t offset, const float *sum, size_t n),
                               void *user, fed_error *err) {
    feddc_engine *e = &x->engine;
    assert(n > 0 && offset + n <= e->plan.n && e->rank < e->workers);
    uint32_t first = feddc_plan_bucket_of(&e->plan, offset + n - 1);
    uint32_t last = feddc_plan_bucket_of(&e->plan, offset);
    for (uint32_t b = first; b <= last; b++) {
        FED_TRY(take_bucket(e, step, b, use, user, err));
    }
    return FED_OK;
}

/* With backup workers, a worker receives only complete sums. So if a message of this step or a
 * later one comes before this rank's push, a sum was completed without this rank. */
bool feddc_exchange_is_late(feddc_exchange *x, uint32_t step) {
    feddc_engine *e = &x->engine;
    pthread_mutex_lock(&e->lock);
    bool late = e->late > 0 && e->heard && e->newest >= step;
    pthread_mutex_unlock(&e->lock);
    return late;
}

typedef struct target {
    fed_gpu_stream *stream;
    float *sum;
    fed_status status;
} target;

static void copy(void *user, size_t offset, const float *sum, size_t n) {
    target *t = user;
    if (t->stream == NULL) {
        memcpy(t->sum + offset, sum, n * sizeof *sum);
    } else if (t->status == FED_OK) {
        t->status = fed_gpu_copy(t->stream, t->sum + offset, sum, n * sizeof *sum, FED_GPU_ACROSS);
    }
}

static fed_status allreduce(feddc_exchange *x, uint32_t step, const float *grad, float *sum,
                            unsigned how, fed_error *err) {
    target t = {.stream = x->engine.caller, .sum = sum};
    put(x, step, 0, grad, x->engine.plan.n, how);
    FED_TRY(feddc_exchange_take(x, step, 0, x->engine.plan.n, copy, &t, err));
    return feddc_values_explain(&x->engine.values, t.status, err);
}

fed_status feddc_allreduce(feddc_exchange *x, uint32_t step, const float *grad, float *sum,
                           fed_error *err) {
    return allreduce(x, step, grad, sum, FEDDC_PLAIN, err);
}

fed_status feddc_allreduce_compressed(feddc_exchange *x, uint32_t step, const float *grad,
                                      float *sum, fed_error *err) {
    const feddc_engine *e = &x->engine;
    if (e->nic.kind == FEDDC_NIC_NONE && feddc_coder_is_exact(e->push) &&
        feddc_coder_is_exact(e->pull)) {
        return fed_fail(err, FED_EINVAL,
                        "this exchange was opened without a codec and without a nic, so nothing "
                        "compresses: give it one of them, or call feddc_allreduce");
    }
    return allreduce(x, step, grad, sum, 0, err);
}

static unsigned how_of(unsigned flag, uint32_t what) {
    return FEDDC_PLAIN | flag | what << FEDDC_WHAT_SHIFT;
}

fed_status feddc_exchange_ask(feddc_exchange *x, uint32_t step, uint32_t what, float *values,
                              fed_error *err) {
    assert(x->engine.owner != NULL && what < FEDDC_REPLICA);
    return allreduce(x, step, values, values, how_of(FEDDC_ASKED, what), err);
}

fed_status feddc_exchange_teach(feddc_exchange *x, uint32_t step, uint32_t what, float *values,
                                fed_error *err) {
    assert(x->engine.owner != NULL && what <= FEDDC_REPLICA);
    /* the sum has the bits of rank 0's values: x + -0 is x, also if x is 0 or -0 */
    for (size_t i = 0; x->engine.rank > 0 && i < x->engine.plan.n; i++) {
        values[i] = -0.0F;
    }
    return allreduce(x, step, values, values, how_of(FEDDC_TAUGHT, what), err);
}

fed_status feddc_exchange_serve(feddc_exchange *x, fed_error *err) {
    feddc_engine *e = &x->engine;
    pthread_mutex_lock(&e->lock);
    while (e->failure.status == FED_OK && !e->workers_gone) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    fed_error failure = e->failure;
    pthread_mutex_unlock(&e->lock);
    return failure.status == FED_OK ? FED_OK : fed_fail(err, failure.status, "%s", failure.text);
}

void feddc_exchange_abort(feddc_exchange *x, const char *why) {
    fed_error err;
    fed_fail(&err, FED_EIO, "%s", why);
    pthread_mutex_lock(&x->engine.lock);
    feddc_engine_fail(&x->engine, &err);
    if (!x->engine.stopped) {
        x->engine.link->wake(x->engine.link_self);
    }
    pthread_mutex_unlock(&x->engine.lock);
}

uint32_t feddc_exchange_workers(const feddc_exchange *x) {
    return x->engine.workers;
}

size_t feddc_exchange_size(const feddc_exchange *x) {
    return x->engine.plan.n;
}

void feddc_exchange_count(feddc_exchange *x, feddc_exchange_counts *counts) {
    feddc_engine *e = &x->engine;
    pthread_mutex_lock(&e->lock);
    *counts = e->counts;
    pthread_mutex_unlock(&e->lock);
}

void feddc_exchange_look(feddc_exchange *x, feddc_exchange_state *state) {
    feddc_engine *e = &x->engine;
    *state = (feddc_exchange_state){.bucket = UINT32_MAX, .waits_for = UINT32_MAX};
    pthread_mutex_lock(&e->lock);
    for (size_t k = 0; k < (size_t)FEDDC_AHEAD * e->plan.buckets; k++) {
        const feddc_cell *cell = &e->cell[k];
        bool waits = cell->started && (cell->left > 0 || cell->lent > 0);
        if (waits && (state->bucket == UINT32_MAX || cell->step < state->step)) {
            *state = (feddc_exchange_state){.step = cell->step,
                                            .bucket = (uint32_t)(k % e->plan.buckets),
                                            .waits_for = cell->waits_for};
        }
    }
    pthread_mutex_unlock(&e->lock);
}

/* A state has the residuals of the pushes, then the residuals of the pulls. With an owner, the
 * latter are the difference of weights and replica. */

static bool keeps_pulls(const feddc_engine *e) {
    return e->owner == NULL && feddc_coder_has_residual(e->pull);
}

size_t feddc_exchange_state_size(const feddc_exchange *x) {
    const feddc_engine *e = &x->engine;
    return e->plan.n * ((size_t)feddc_coder_has_residual(e->push) + (size_t)keeps_pulls(e));
}

fed_status feddc_exchange_save(const feddc_exchange *x, float *state, fed_error *err) {
    const feddc_engine *e = &x->engine;
    FED_TRY(feddc_coder_save(e->push, state, err));
    state += feddc_coder_has_residual(e->push) ? e->plan.n : 0;
    return keeps_pulls(e) ? feddc_coder_save(e->pull, state, err) : FED_OK;
}

fed_status feddc_exchange_restore(feddc_exchange *x, const float *state, fed_error *err) {
    feddc_engine *e = &x->engine;
    FED_TRY(feddc_coder_restore(e->push, state, err));
    state += feddc_coder_has_residual(e->push) ? e->plan.n : 0;
    return keeps_pulls(e) ? feddc_coder_restore(e->pull, state, err) : FED_OK;
}
