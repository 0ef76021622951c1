/* Encode slices into messages and decode them, on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/gpu_coder.h"

#include <stdlib.h>
#include <string.h>

#include "fedcodec/gpu_codecs.h"

/* alignment in bytes: of this file's slices, and of what codecs read and write */
enum { ALIGN = 128, VECTOR = 16 };

struct feddc_gpu_coder {
    fedcodec codec;
    fedcodec_gpu *on_gpu;
    const feddc_plan *plan;
    const feddc_values *values;

    size_t *at;  /* [slices]: offset of each slice in the residual, in values; NULL: no residual */
    size_t most; /* values of the largest coded slice */

    /* In GPU memory, except `told`: */
    float *residual;
    float *slice;  /* float32[most], for slices that are not aligned as the codec needs */
    uint8_t *area; /* the messages of a shard's slices, each at a multiple of ALIGN */
    void *work;
    fedcodec_gpu_head *head;

    fedcodec_gpu_head *told; /* room for a copy of `head` in pinned host memory */
};

static size_t round_up(size_t size) {
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t bound_of(const feddc_gpu_coder *c, const feddc_slice *slice) {
    return slice->plain ? slice->n * sizeof(float) : fedcodec_bound(&c->codec, slice->n);
}

static bool fits_codec(const float *x) {
    return (uintptr_t)x % VECTOR == 0;
}

typedef struct sizes {
    size_t residual; /* values */
    size_t area, work, heads;
} sizes;

static sizes measure(feddc_gpu_coder *c) {
    const feddc_plan *plan = c->plan;
    sizes most = {0};
    for (size_t k = 0; k < plan->slices; k++) {
        const feddc_slice *slice = &plan->slice[k];
        if (c->at != NULL) {
            c->at[k] = most.residual;
        }
        most.residual += round_up(slice->n * sizeof(float)) / sizeof(float);
        if (!slice->plain) {
            c->most = feddc_larger(c->most, slice->n);
            most.work = feddc_larger(most.work, fedcodec_gpu_work_size(c->on_gpu, slice->n));
        }
    }
    for (size_t s = 0; s < (size_t)plan->buckets * plan->shards; s++) {
        size_t area = 0;
        for (size_t k = 0; k < plan->shard[s].count; k++) {
            area += round_up(bound_of(c, feddc_plan_slice(c->plan, &plan->shard[s], k)));
        }
        most.area = feddc_larger(most.area, area);
        most.heads = feddc_larger(most.heads, plan->shard[s].count);
    }
    return most;
}

static fed_status make_memory(feddc_gpu_coder *c) {
    fed_gpu *gpu = c->values->gpu;
    if (fedcodec_has_feedback(c->codec.vtable)) {
        c->at = malloc((c->plan->slices + 1) * sizeof *c->at);
        FED_REQUIRE(c->at != NULL, FED_ENOMEM);
    }
    const sizes most = measure(c);
    if (c->at != NULL) {
        FED_TRY(feddc_values_new(c->values, most.residual, &c->residual));
    }
    FED_TRY(fed_gpu_alloc(gpu, c->most * sizeof *c->slice, (void **)&c->slice));
    FED_TRY(fed_gpu_alloc(gpu, most.area, (void **)&c->area));
    FED_TRY(fed_gpu_alloc(gpu, most.work, &c->work));
    FED_TRY(fed_gpu_alloc(gpu, most.heads * sizeof *c->head, (void **)&c->head));
    return fed_gpu_alloc_host(gpu, most.heads * sizeof *c->told, (void **)&c->told);
}

fed_status feddc_gpu_coder_new(const fedcodec *codec, const feddc_plan *plan,
                               const feddc_values *values, feddc_gpu_coder **coder,
                               fed_error *err) {
    feddc_gpu_coder *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a coder");
    }
    *c = (feddc_gpu_coder){.codec = *codec, .plan = plan, .values = values};
    fed_status status = fedcodec_gpu_new(values->gpu, codec, &c->on_gpu, err);
    if (status == FED_OK) {
        status = feddc_values_explain(values, make_memory(c), err);
    }
    if (status != FED_OK) {
        feddc_gpu_coder_free(c);
        return status;
    }
    *coder = c;
    return FED_OK;
}

void feddc_gpu_coder_free(feddc_gpu_coder *c) {
    if (c == NULL) {
        return;
    }
    fed_gpu *gpu = c->values->gpu;
    /* wait until no work on the GPU uses the memory */
    const fed_status done = feddc_values_wait(c->values);
    (void)done;
    void *const memory[] = {c->residual, c->slice, c->area, c->work, c->head};
    for (size_t k = 0; k < sizeof memory / sizeof memory[0]; k++) {
        fed_gpu_free(gpu, memory[k]);
    }
    fed_gpu_free_host(gpu, c->told);
    fedcodec_gpu_free(c->on_gpu);
    free(c->at);
    free(c);
}

static float *residual_of(const feddc_gpu_coder *c, const feddc_shard *shard, size_t k) {
    return c->at != NULL ? c->residual + c->at[shard->first + k] : NULL;
}

/* Write x plus the residual, if there is one, as float32 values. The residual may hold a message
 * that came too late for an earlier sum. */
static fed_status send_plain(const feddc_gpu_coder *c, float *residual, const float *x, size_t n,
                             float *y) {
    if (residual == NULL) {
        return feddc_values_use(c->values, true, y, x, n);
    }
    const uint32_t count = (uint32_t)n;
    const fed_gpu_arg args[] = {FED_GPU_AT(residual), FED_GPU_AT(x), FED_GPU_VALUE(count),
                                FED_GPU_AT(y)};
    return fed_gpu_launch(c->values->stream, c->values->module, "values_carry",
                          feddc_values_groups(n), args, 4);
}

static fed_status encode_slice(feddc_gpu_coder *c, const feddc_shard *shard, size_t k,
                               const float *x, size_t at) {
    const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
    float *residual = residual_of(c, shard, k);
    if (slice->plain) {
        return send_plain(c, residual, x, slice->n, (float *)(void *)(c->area + at));
    }
    if (!fits_codec(x)) {
        FED_TRY(feddc_values_use(c->values, true, c->slice, x, slice->n));
        x = c->slice;
    }
    return fedcodec_gpu_encode(c->on_gpu, c->values->stream, residual, x, slice->n, c->work,
                               c->area + at, bound_of(c, slice), &c->head[k]);
}

static fed_status check_heads(feddc_gpu_coder *c, const feddc_shard *shard, size_t *bad) {
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        *bad = k;
        if (slice->plain) {
            c->told[k] = (fedcodec_gpu_head){.len = (uint32_t)(slice->n * sizeof(float))};
        }
        FED_REQUIRE(c->told[k].status == FED_OK, (fed_status)c->told[k].status);
        FED_REQUIRE(c->told[k].len <= bound_of(c, slice), FED_EIO);
    }
    return FED_OK;
}

static fed_status collect(feddc_gpu_coder *c, const feddc_shard *shard, uint8_t *dst, size_t *len) {
    size_t at = 0, to = 0;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        const uint32_t bytes = c->told[k].len;
        memcpy(dst + to, &bytes, sizeof bytes);
        to += sizeof bytes;
        FED_TRY(fed_gpu_copy(c->values->stream, dst + to, c->area + at, bytes, FED_GPU_DOWN));
        to += bytes;
        at += round_up(bound_of(c, slice));
    }
    *len = to;
    return feddc_values_wait(c->values);
}

static fed_status read_heads(feddc_gpu_coder *c, size_t count) {
    FED_TRY(
        fed_gpu_copy(c->values->stream, c->told, c->head, count * sizeof *c->head, FED_GPU_DOWN));
    return feddc_values_wait(c->values);
}

fed_status feddc_gpu_coder_encode(feddc_gpu_coder *c, const feddc_shard *shard, const float *x,
                                  uint8_t *dst, size_t *len, size_t *bad) {
    size_t at = 0;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        *bad = k;
        FED_TRY(encode_slice(c, shard, k, x + (slice->offset - shard->offset), at));
        at += round_up(bound_of(c, slice));
    }
    FED_TRY(read_heads(c, shard->count));
    FED_TRY(check_heads(c, shard, bad));
    return collect(c, shard, dst, len);
}

fed_status feddc_gpu_coder_zeroed(feddc_gpu_coder *c, const feddc_shard *shard, size_t k,
                                  const float *x, uint64_t *zeroed) {
    const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
    size_t at = 0;
    for (size_t before = 0; before < k; before++) {
        at += round_up(bound_of(c, feddc_plan_slice(c->plan, shard, before)));
    }
    FED_TRY(fedcodec_gpu_decode(c->on_gpu, c->values->stream, c->area + at, bound_of(c, slice),
                                &c->head[k], c->slice, slice->n, c->work));
    return feddc_values_zeroed(c->values, x + (slice->offset - shard->offset), c->slice, slice->n,
                               zeroed);
}

static fed_status read_coded(feddc_gpu_coder *c, bool set, const feddc_slice *slice, size_t k,
                             const uint8_t *message, float *y) {
    const size_t bound = bound_of(c, slice);
    fed_gpu_stream *stream = c->values->stream;
    return set ? fedcodec_gpu_decode(c->on_gpu, stream, message, bound, &c->head[k], y, slice->n,
                                     c->work)
               : fedcodec_gpu_axpy(c->on_gpu, stream, message, bound, &c->head[k], 1.0F, y,
                                   slice->n, c->work);
}

static fed_status use_coded(feddc_gpu_coder *c, bool set, const feddc_slice *slice, size_t k,
                            const uint8_t *src, size_t len, size_t at, float *y) {
    uint8_t *message = c->area + at;
    FED_REQUIRE(len <= bound_of(c, slice), FED_EFORMAT);
    c->told[k] = (fedcodec_gpu_head){.len = (uint32_t)len};
    FED_TRY(fed_gpu_copy(c->values->stream, &c->head[k], &c->told[k], sizeof *c->head, FED_GPU_UP));
    FED_TRY(fed_gpu_copy(c->values->stream, message, src, len, FED_GPU_UP));
    if (fits_codec(y)) {
        return read_coded(c, set, slice, k, message, y);
    }
    if (!set) {
        FED_TRY(feddc_values_use(c->values, true, c->slice, y, slice->n));
    }
    FED_TRY(read_coded(c, set, slice, k, message, c->slice));
    return feddc_values_use(c->values, true, y, c->slice, slice->n);
}

static fed_status use_slice(feddc_gpu_coder *c, bool set, const feddc_slice *slice, size_t k,
                            const uint8_t *src, size_t len, size_t at, float *y) {
    if (!slice->plain) {
        return use_coded(c, set, slice, k, src, len, at, y);
    }
    FED_REQUIRE(len == slice->n * sizeof *y, FED_EFORMAT);
    c->told[k] = (fedcodec_gpu_head){.status = FED_OK};
    FED_TRY(fed_gpu_copy(c->values->stream, &c->head[k], &c->told[k], sizeof *c->head, FED_GPU_UP));
    return feddc_values_use_bytes(c->values, set, y, src, slice->n);
}

static fed_status use_slices(feddc_gpu_coder *c, bool set, const feddc_shard *shard,
                             const uint8_t *src, size_t len, float *y) {
    size_t from = 0, at = 0;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        float *to = y != NULL ? y + (slice->offset - shard->offset) : residual_of(c, shard, k);
        uint32_t bytes = 0;
        FED_REQUIRE(len - from >= sizeof bytes, FED_EFORMAT);
        memcpy(&bytes, src + from, sizeof bytes);
        from += sizeof bytes;
        FED_REQUIRE(len - from >= bytes, FED_EFORMAT);
        FED_TRY(use_slice(c, set, slice, k, src + from, bytes, at, to));
        from += bytes;
        at += round_up(bound_of(c, slice));
    }
    return from == len ? FED_OK : FED_EFORMAT;
}

fed_status feddc_gpu_coder_use(feddc_gpu_coder *c, bool set, const feddc_shard *shard,
                               const uint8_t *src, size_t len, float *y) {
    const fed_status status = use_slices(c, set, shard, src, len, y);
    /* after read_heads, which waits for the stream, nothing reads src and told any more */
    const fed_status read = read_heads(c, shard->count);
    FED_TRY(status);
    FED_TRY(read);
    for (size_t k = 0; k < shard->count; k++) {
        FED_REQUIRE(c->told[k].status == FED_OK, (fed_status)c->told[k].status);
    }
    return FED_OK;
}

fed_status feddc_gpu_coder_residual(const feddc_gpu_coder *c, float *host, fed_gpu_way way) {
    fed_gpu_stream *stream = NULL;
    FED_TRY(fed_gpu_stream_new(c->values->gpu, NULL, &stream));
    fed_status status = FED_OK;
    for (size_t k = 0; k < c->plan->slices && status == FED_OK; k++) {
        const feddc_slice *slice = &c->plan->slice[k];
        float *there = c->residual + c->at[k], *here = host + slice->offset;
        status = way == FED_GPU_UP
                     ? fed_gpu_copy(stream, there, here, slice->n * sizeof *here, way)
                     : fed_gpu_copy(stream, here, there, slice->n * sizeof *here, way);
    }
    if (status == FED_OK) {
        status = fed_gpu_sync(stream);
    }
    fed_gpu_stream_free(stream);
    return status;
}
