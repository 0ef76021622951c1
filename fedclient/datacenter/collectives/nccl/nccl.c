/* NCCL's all-reduce, from GPU to GPU: the baseline for compressed exchanges. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedclient/datacenter/buffers.h"
#include "fedclient/datacenter/collectives/nccl/nccl_calls.h"
#include "fedclient/datacenter/inputs.h"

/* The link carries no gradients. When a rank's gradient of a bucket is ready, the rank sends an
 * empty message to all others. A rank with this message from all others reduces the bucket. Buckets
 * are reduced in the order of steps and buckets, which is the same on all ranks. So no rank waits
 * inside NCCL for a rank that is late. Rank 0's message for the first bucket carries NCCL's
 * unique id. One reduction is under way at a time. The engine polls for its end, and reads the link
 * meanwhile: if a rank is lost, ncclCommAbort ends the reduction. If a reduction does not end
 * within PATIENCE_S, the exchange fails. If a rank dies within ncclCommInitRank, the others wait
 * for NCCL's own time-outs. Rounding, with the codec bfloat16: each rank's values are rounded once,
 * to nearest even, as the codec does. NCCL adds in bfloat16, in an order of its own, and rounds
 * partial sums, which may overflow to infinity. Plain steps and small tensors are float32, added in
 * NCCL's order. All ranks get the same bits, but not those of other collectives. */

enum { PATIENCE_S = 60 };

extern const char feddc_nccl_text[]; /* nccl.cl */

typedef struct nccl_bucket {
    feddc_turn turn;
    feddc_inputs in;
    bool waiting;
    const float *x;
} nccl_bucket;

typedef struct nccl {
    feddc_collective_job job;
    nccl_calls calls;
    nccl_comm comm; /* NULL: not made yet */
    nccl_id id;
    bool has_id, broken, narrows, started;
    uint32_t step, next; /* step and bucket of the reduction under way, or of the next one */
    nccl_bucket *reducing;
    uint64_t since; /* when the reduction began, ns */
    const fed_gpu_module *module;
    uint16_t *narrow; /* room for a bucket's bfloat16 values, on the GPU; NULL: all is float32 */
    nccl_bucket *bucket;
} nccl;

typedef struct order {
    nccl *n;
    const void *from;
    void *to;
    size_t count;
    nccl_type type;
    fed_error *err;
} order;

static fed_status checked(const nccl *n, nccl_result result, const char *call, fed_error *err) {
    return result == NCCL_OK
               ? FED_OK
               : fed_fail(err, FED_EIO,
                          "rank %u: %s failed with %u (%s); set NCCL_DEBUG=WARN to see more",
                          n->job.rank, call, result, n->calls.text(result));
}

static fed_status make_id(void *user, void *native) {
    const order *o = user;
    (void)native;
    return checked(o->n, o->n->calls.id(&o->n->id), "ncclGetUniqueId", o->err);
}

static fed_status init(void *user, void *native) {
    const order *o = user;
    nccl *n = o->n;
    (void)native;
    return checked(n, n->calls.init(&n->comm, (int)n->job.ranks, n->id, (int)n->job.rank),
                   "ncclCommInitRank", o->err);
}

static fed_status reduce(void *user, void *native) {
    const order *o = user;
    nccl *n = o->n;
    return checked(n, n->calls.reduce(o->from, o->to, o->count, o->type, NCCL_SUM, n->comm, native),
                   "ncclAllReduce", o->err);
}

static fed_status check_async(void *user, void *native) {
    const order *o = user;
    nccl_result result = NCCL_OK;
    (void)native;
    FED_TRY(checked(o->n, o->n->calls.error(o->n->comm, &result), "ncclCommGetAsyncError", o->err));
    return checked(o->n, result, "a reduction", o->err);
}

static fed_status leave(void *user, void *native) {
    nccl *n = user;
    (void)native;
    (void)(n->broken ? n->calls.abort(n->comm) : n->calls.destroy(n->comm));
    return FED_OK;
}

static fed_status call(nccl *n, fed_status (*what)(void *user, void *native), fed_error *err) {
    order o = {.n = n, .err = err};
    return fed_gpu_call(n->job.values->stream, what, &o);
}

static fed_status convert(const nccl *n, const char *kernel, const void *from, size_t count,
                          void *to, fed_error *err) {
    const feddc_values *v = n->job.values;
    const uint32_t values = (uint32_t)count;
    const fed_gpu_arg args[] = {FED_GPU_AT(from), FED_GPU_VALUE(values), FED_GPU_AT(to)};
    return feddc_values_explain(
        v, fed_gpu_launch(v->stream, n->module, kernel, feddc_values_groups(count), args, 3), err);
}

static fed_status reduce_run(nccl *n, bool narrow, const float *x, size_t count, float *sum,
                             fed_error *err) {
    order o = {.n = n, .from = x, .to = sum, .count = count, .type = NCCL_FLOAT32, .err = err};
    if (!narrow) {
        return fed_gpu_call(n->job.values->stream, reduce, &o);
    }
    FED_TRY(convert(n, "nccl_narrow", x, count, n->narrow, err));
    o.from = o.to = n->narrow;
    o.type = NCCL_BFLOAT16;
    FED_TRY(fed_gpu_call(n->job.values->stream, reduce, &o));
    return convert(n, "nccl_widen", n->narrow, count, sum, err);
}

/* Neighbouring slices with the same type on the line are reduced by one call. */
static fed_status reduce_slices(nccl *n, const nccl_bucket *b, fed_error *err) {
    const feddc_shard *shard = b->turn.shard;
    const feddc_slice *slice = &n->job.plan->slice[shard->first];
    const bool narrows = n->narrows && !b->turn.plain;
    size_t k = 0;
    while (k < shard->count) {
        const bool narrow = narrows && !slice[k].plain;
        const size_t at = slice[k].offset;
        size_t count = 0;
        for (; k < shard->count && (narrows && !slice[k].plain) == narrow; k++) {
            count += slice[k].n;
        }
        FED_TRY(reduce_run(n, narrow, b->x + (at - shard->offset), count, n->job.sum + at, err));
    }
    return FED_OK;
}

static fed_status begin_reduction(nccl *n, nccl_bucket *b, fed_error *err) {
    if (n->comm == NULL) {
        FED_TRY(call(n, init, err));
    }
    b->waiting = false;
    n->reducing = b;
    n->since = feddc_engine_ns();
    return reduce_slices(n, b, err);
}

static void end_reduction(nccl *n) {
    const feddc_turn *turn = &n->reducing->turn;
    feddc_engine_spent(n->job.engine, FEDDC_SUM, turn->step, turn->bucket,
                       turn->shard->n * sizeof(float), n->since);
    n->reducing = NULL;
    n->next = (n->next + 1) % n->job.plan->buckets;
    n->step += n->next == 0;
    feddc_engine_done(n->job.engine, turn->step, turn->bucket, 0, n->job.sum + turn->shard->offset);
}

static fed_status look(nccl *n, fed_error *err) {
    const feddc_values *v = n->job.values;
    bool done = false;
    FED_TRY(feddc_values_explain(v, fed_gpu_done(v->stream, &done), err));
    FED_TRY(call(n, check_async, err));
    if (done) {
        end_reduction(n);
    } else if (feddc_engine_ns() - n->since > PATIENCE_S * UINT64_C(1000000000)) {
        return fed_fail(
            err, FED_EIO,
            "rank %u: NCCL has not summed bucket %u of step %u within %d s: a rank hangs, or the "
            "line between the GPUs is down; set NCCL_DEBUG=WARN to see more",
            n->job.rank, n->reducing->turn.bucket, n->reducing->turn.step, PATIENCE_S);
    }
    return FED_OK;
}

static fed_status read_note(nccl *n, const nccl_bucket *b, const feddc_event *event,
                            fed_error *err) {
    const bool brings = event->peer == 0 && !n->has_id;
    FED_TRY(feddc_check_plain(b->turn.step, b->turn.plain, event, err));
    if (event->len != (brings ? sizeof n->id : 0)) {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u sent a message of %zu bytes that is no notice of a ready bucket: "
                        "give all ranks the same options",
                        event->peer, event->len);
    }
    if (brings) {
        memcpy(&n->id, event->data, sizeof n->id);
        n->has_id = true;
    }
    return FED_OK;
}

static fed_status hear(nccl *n, nccl_bucket *b, bool *all, fed_error *err) {
    feddc_inputs *in = &b->in;
    for (; in->added < in->count; in->added++) {
        feddc_event event;
        if (in->rank[in->added] == n->job.rank) {
            continue;
        }
        if (!feddc_pending_take(&in->pending[in->added], b->turn.step, &event)) {
            break;
        }
        const fed_status status = read_note(n, b, &event, err);
        feddc_engine_release(n->job.engine, &event);
        FED_TRY(status);
    }
    *all = in->added == in->count;
    return FED_OK;
}

static fed_status advance(nccl *n, fed_error *err) {
    nccl_bucket *b = &n->bucket[n->next];
    bool all = false;
    if (n->reducing == NULL && b->waiting && b->turn.step == n->step) {
        FED_TRY(hear(n, b, &all, err));
    }
    return all ? begin_reduction(n, b, err) : FED_OK;
}

static fed_status note(nccl *n, fed_status status) {
    n->broken = n->broken || status != FED_OK;
    return status;
}

/* Tell all others that this bucket is ready. Rank 0's message for the first bucket carries
 * NCCL's unique id. */
static fed_status tell(nccl *n, const nccl_bucket *b, fed_error *err) {
    const feddc_head head = {
        .flags = b->turn.plain ? FEDDC_PLAIN : 0, .bucket = b->turn.bucket, .step = b->turn.step};
    const bool brings =
        n->job.rank == 0 && b->turn.step == n->step && b->turn.bucket == 0 && n->comm == NULL;
    for (uint32_t k = 1; k < n->job.ranks; k++) {
        FED_TRY(feddc_engine_send(n->job.engine, (n->job.rank + k) % n->job.ranks, &head,
                                  brings ? &n->id : NULL, brings ? sizeof n->id : 0,
                                  FEDDC_TOKEN_NOTHING, err));
    }
    return FED_OK;
}

static fed_status begin(void *self, uint32_t step, uint32_t bucket, const float *grad, bool plain,
                        fed_error *err) {
    nccl *n = self;
    nccl_bucket *b = &n->bucket[bucket];
    if (!n->started) {
        n->started = true;
        n->step = step;
        n->has_id = n->job.rank == 0;
        FED_TRY(n->has_id ? note(n, call(n, make_id, err)) : FED_OK);
    }
    b->turn.step = step;
    b->turn.plain = plain;
    b->in.added = 0;
    b->x = grad;
    b->waiting = true;
    FED_TRY(note(n, tell(n, b, err)));
    return note(n, advance(n, err));
}

static fed_status arrived(void *self, const feddc_event *event, fed_error *err) {
    nccl *n = self;
    FED_TRY(note(n, feddc_inputs_keep(&n->bucket[event->head.bucket].in, event, err)));
    return n->started ? note(n, advance(n, err)) : FED_OK;
}

static fed_status poll(void *self, bool *under_way, fed_error *err) {
    nccl *n = self;
    if (n->reducing != NULL) {
        FED_TRY(note(n, look(n, err)));
        FED_TRY(note(n, advance(n, err)));
    }
    *under_way = n->reducing != NULL;
    return FED_OK;
}

static uint32_t waits_for(const void *self, uint32_t bucket) {
    const nccl *n = self;
    const nccl_bucket *b = &n->bucket[bucket];
    const bool turn = b->waiting && bucket == n->next;
    const uint32_t rank = turn ? feddc_inputs_missing(&b->in) : UINT32_MAX;
    return rank != n->job.rank ? rank : UINT32_MAX;
}

static void close_nccl(void *self) {
    nccl *n = self;
    n->broken = n->broken || n->reducing != NULL;
    for (uint32_t k = 0; n->bucket != NULL && k < n->job.plan->buckets; k++) {
        feddc_inputs_free(&n->bucket[k].in);
    }
    if (n->comm != NULL) {
        (void)!fed_gpu_call(n->job.values->stream, leave, n);
    }
    if (n->narrow != NULL) {
        (void)!feddc_values_wait(n->job.values);
        fed_gpu_free(n->job.values->gpu, n->narrow);
    }
    feddc_nccl_unload(&n->calls);
    free(n->bucket);
    free(n);
}

static fed_status refuse(const feddc_collective_job *job, fed_error *err) {
    const char *push = fedcodec_name(feddc_coder_codec(job->push)->vtable);
    const fed_gpu *gpu = job->values->gpu;
    if (gpu == NULL || strncmp(fed_gpu_info_of(gpu)->name, "cuda:", 5) != 0) {
        return fed_fail(err, FED_EINVAL,
                        "the collective nccl sums on NVIDIA GPUs, but this rank's gradients are "
                        "%s%s: it needs --device cuda:N on each rank",
                        gpu != NULL ? "on " : "in the host's memory",
                        gpu != NULL ? fed_gpu_info_of(gpu)->name : "");
    }
    if (!feddc_coder_is_exact(job->pull)) {
        return fed_fail(
            err, FED_EINVAL,
            "the collective nccl sends no sums that %s could code: leave the pull codec out",
            fedcodec_name(feddc_coder_codec(job->pull)->vtable));
    }
    if (!feddc_coder_is_exact(job->push) && strcmp(push, "bfloat16") != 0) {
        return fed_fail(err, FED_EINVAL,
                        "the collective nccl sums float32 or bfloat16, not %s: take one of these "
                        "codecs, or the collective gather or owners",
                        push);
    }
    return FED_OK;
}

static fed_status make_buckets(nccl *n) {
    const feddc_plan *plan = n->job.plan;
    uint32_t rank[FEDDC_RANKS];
    size_t most = 0;
    n->bucket = calloc(plan->buckets, sizeof *n->bucket);
    FED_REQUIRE(n->bucket != NULL, FED_ENOMEM);
    for (uint32_t r = 0; r < n->job.ranks; r++) {
        rank[r] = r;
    }
    for (uint32_t k = 0; k < plan->buckets; k++) {
        nccl_bucket *b = &n->bucket[k];
        b->turn = (feddc_turn){.shard = feddc_plan_shard(plan, k, 0), .bucket = k};
        most = b->turn.shard->n > most ? b->turn.shard->n : most;
        FED_TRY(feddc_inputs_make(&b->in, rank, n->job.ranks));
    }
    return n->narrows
               ? fed_gpu_alloc(n->job.values->gpu, most * sizeof *n->narrow, (void **)&n->narrow)
               : FED_OK;
}

static fed_status open_nccl(const feddc_collective_job *job, void **self, fed_error *err) {
    FED_TRY(refuse(job, err));
    nccl *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a collective");
    }
    n->job = *job;
    n->narrows = !feddc_coder_is_exact(job->push);
    fed_status status = feddc_nccl_load(&n->calls, err);
    if (status == FED_OK) {
        status = fed_gpu_build(job->values->gpu, feddc_nccl_text, &n->module, err);
    }
    if (status == FED_OK && (status = make_buckets(n)) != FED_OK) {
        (void)!fed_fail(err, status, "out of memory for %u buckets of NCCL", job->plan->buckets);
    }
    if (status != FED_OK) {
        close_nccl(n);
        return status;
    }
    *self = n;
    return FED_OK;
}

static const fed_param params[] = {{.key = NULL}};

const feddc_collective_vtable feddc_collective_nccl = {
    .id = 5,
    .name = "nccl",
    .about = "NCCL's all-reduce of float32 or bfloat16, between NVIDIA's cards: the baseline",
    .params = params,
    .open = open_nccl,
    .begin = begin,
    .arrived = arrived,
    .poll = poll,
    .waits_for = waits_for,
    .close = close_nccl,
};
