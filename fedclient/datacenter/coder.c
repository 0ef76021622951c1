/* Encode shards of the gradient into messages, and decode messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/coder.h"

#include <stdlib.h>
#include <string.h>

#include "fedclient/datacenter/gpu_coder.h"

/* One coded slice in 16 is decoded again, to count the values that became 0. A codec with a
 * residual keeps such values, so its messages are not decoded again. */
enum { COUNT_EVERY = 16 };

struct feddc_coder {
    fedcodec codec;
    bool identity;
    const feddc_plan *plan;
    const feddc_values *values;
    feddc_gpu_coder *on_gpu; /* NULL: the codec runs on the host, or all messages are raw */
    float *residual;         /* float32[plan->n] in host memory, or NULL */
    void *work;
    float *back; /* room for decoding the largest coded slice; or NULL */
    uint64_t encodes;
    feddc_coder_counts counts;
};

static fed_status choose(const char *spec, fedcodec *codec, fed_error *err) {
    FED_TRY(fedcodec_parse(spec != NULL ? spec : "float32", codec, err));
    if (codec->stage != 0) {
        return fed_fail(err, FED_EINVAL, "%s: an exchange takes no second stage; leave out \"+%s\"",
                        spec, fedcodec_stage_name(codec->stage));
    }
    /* an exchange ends after a failure, so the residual may be spoilt */
    codec->unguarded = true;
    return FED_OK;
}

static size_t largest_slice(const feddc_plan *plan, const fedcodec *codec, size_t *work) {
    size_t most = 0;
    for (size_t k = 0; k < plan->slices; k++) {
        if (!plan->slice[k].plain) {
            size_t n = plan->slice[k].n, need = fedcodec_work_size(codec, n);
            most = n > most ? n : most;
            *work = need > *work ? need : *work;
        }
    }
    return most;
}

static fed_status make_room(feddc_coder *c, fed_error *err) {
    size_t work = 0, most = largest_slice(c->plan, &c->codec, &work);
    bool feedback = fedcodec_has_feedback(c->codec.vtable);
    if (c->identity || most == 0) {
        return FED_OK;
    }
    if (c->values->gpu != NULL) {
        return feddc_gpu_coder_new(&c->codec, c->plan, c->values, &c->on_gpu, err);
    }
    c->work = work > 0 ? aligned_alloc(64, (work + 63) / 64 * 64) : NULL;
    c->residual = feedback ? calloc(c->plan->n, sizeof(float)) : NULL;
    c->back = feedback ? NULL : malloc(most * sizeof(float));
    bool ok = (work == 0 || c->work != NULL) && (feedback ? c->residual : c->back) != NULL;
    return ok ? FED_OK
              : fed_fail(err, FED_ENOMEM, "out of memory for the residual of %zu values",
                         c->plan->n);
}

fed_status feddc_coder_new(const char *spec, const feddc_plan *plan, const feddc_values *values,
                           feddc_coder **coder, fed_error *err) {
    fedcodec codec;
    FED_TRY(choose(spec, &codec, err));
    feddc_coder *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a coder");
    }
    c->codec = codec;
    c->plan = plan;
    c->values = values;
    c->identity = strcmp(fedcodec_name(codec.vtable), "float32") == 0;
    fed_status status = make_room(c, err);
    if (status != FED_OK) {
        feddc_coder_free(c);
        return status;
    }
    *coder = c;
    return FED_OK;
}

void feddc_coder_free(feddc_coder *coder) {
    if (coder != NULL) {
        feddc_gpu_coder_free(coder->on_gpu);
        free(coder->residual);
        free(coder->work);
        free(coder->back);
        free(coder);
    }
}

const fedcodec *feddc_coder_codec(const feddc_coder *coder) {
    return &coder->codec;
}

bool feddc_coder_is_exact(const feddc_coder *coder) {
    return coder->identity;
}

bool feddc_coder_has_residual(const feddc_coder *coder) {
    return coder->residual != NULL ||
           (coder->on_gpu != NULL && fedcodec_has_feedback(coder->codec.vtable));
}

fed_status feddc_coder_save(const feddc_coder *c, float *residual, fed_error *err) {
    if (c->residual != NULL) {
        memcpy(residual, c->residual, c->plan->n * sizeof *residual);
    } else if (feddc_coder_has_residual(c)) {
        return feddc_values_explain(
            c->values, feddc_gpu_coder_residual(c->on_gpu, residual, FED_GPU_DOWN), err);
    }
    return FED_OK;
}

fed_status feddc_coder_restore(feddc_coder *c, const float *residual, fed_error *err) {
    if (c->residual != NULL) {
        memcpy(c->residual, residual, c->plan->n * sizeof *residual);
    } else if (feddc_coder_has_residual(c)) {
        return feddc_values_explain(
            c->values, feddc_gpu_coder_residual(c->on_gpu, (float *)residual, FED_GPU_UP), err);
    }
    return FED_OK;
}

const feddc_coder_counts *feddc_coder_count(const feddc_coder *coder) {
    return &coder->counts;
}

bool feddc_coder_is_raw(const feddc_coder *c, const feddc_shard *shard, bool plain) {
    bool raw = true;
    for (size_t k = 0; k < shard->count && raw; k++) {
        raw = feddc_plan_slice(c->plan, shard, k)->plain;
    }
    return raw || plain || c->identity;
}

bool feddc_coder_lends(const feddc_coder *c, const feddc_shard *shard, bool plain) {
    return c->values->gpu == NULL && feddc_coder_is_raw(c, shard, plain);
}

size_t feddc_coder_bound(const feddc_coder *c, const feddc_shard *shard) {
    const size_t values = shard->n * sizeof(float);
    size_t bytes = 0;
    if (feddc_coder_is_raw(c, shard, false)) {
        return values;
    }
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        bytes += sizeof(uint32_t) +
                 (slice->plain ? slice->n * sizeof(float) : fedcodec_bound(&c->codec, slice->n));
    }
    return c->values->gpu != NULL && bytes < values ? values : bytes;
}

void feddc_spread_add(uint64_t spread[FEDDC_SPREAD], const float *x, size_t n) {
    enum { MANTISSA = 23, EXPONENT = 0xff, BIAS = 127 };
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const uint32_t exponent = bits >> MANTISSA & EXPONENT;
        const uint32_t below = exponent < BIAS ? BIAS - exponent : 0;
        spread[below < FEDDC_SPREAD ? below : FEDDC_SPREAD - 1]++;
    }
}

static fed_status count_zeros(feddc_coder *c, const float *x, size_t n, const uint8_t *src,
                              size_t len) {
    uint64_t zeroed = 0;
    FED_TRY(fedcodec_decode(c->codec.vtable, src, len, c->back, n));
    FED_TRY(feddc_values_zeroed(c->values, x, c->back, n, &zeroed));
    c->counts.zeroed += zeroed;
    c->counts.coded += n;
    if (c->values->gpu == NULL) {
        feddc_spread_add(c->counts.spread, x, n);
    }
    return FED_OK;
}

/* Write x plus the residual, if there is one, as float32 values. The residual may hold a message
 * that came too late for an earlier sum. */
static void send_plain(float *residual, const float *x, size_t n, uint8_t *dst) {
    for (size_t i = 0; i < n; i++) {
        float sum = residual != NULL ? residual[i] + x[i] : x[i];
        memcpy(dst + i * sizeof sum, &sum, sizeof sum);
        if (residual != NULL) {
            residual[i] = 0;
        }
    }
}

static fed_status encode_slice(feddc_coder *c, const feddc_slice *slice, const float *x,
                               uint8_t *dst, size_t *len) {
    float *residual = c->residual != NULL ? c->residual + slice->offset : NULL;
    if (slice->plain) {
        *len = slice->n * sizeof(float);
        send_plain(residual, x, slice->n, dst);
        return FED_OK;
    }
    FED_TRY(fedcodec_encode(&c->codec, residual, x, slice->n, c->work, dst,
                            fedcodec_bound(&c->codec, slice->n), len));
    if (c->back != NULL && c->encodes++ % COUNT_EVERY == 0) {
        FED_TRY(count_zeros(c, x, slice->n, dst, *len));
    }
    return FED_OK;
}

static fed_status encode_slices(feddc_coder *c, const feddc_shard *shard, const float *x,
                                uint8_t *dst, size_t *len, size_t *bad) {
    size_t at = 0;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        size_t bytes = 0;
        *bad = k;
        FED_TRY(encode_slice(c, slice, x + (slice->offset - shard->offset),
                             dst + at + sizeof(uint32_t), &bytes));
        uint32_t prefix = (uint32_t)bytes;
        memcpy(dst + at, &prefix, sizeof prefix);
        at += sizeof prefix + bytes;
    }
    *len = at;
    return FED_OK;
}

static fed_status encode_on_gpu(feddc_coder *c, const feddc_shard *shard, const float *x,
                                uint8_t *dst, size_t *len, size_t *bad) {
    FED_TRY(feddc_gpu_coder_encode(c->on_gpu, shard, x, dst, len, bad));
    for (size_t k = 0; k < shard->count && !feddc_coder_has_residual(c); k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        uint64_t zeroed = 0;
        if (!slice->plain && c->encodes++ % COUNT_EVERY == 0) {
            FED_TRY(feddc_gpu_coder_zeroed(c->on_gpu, shard, k, x, &zeroed));
            c->counts.zeroed += zeroed;
            c->counts.coded += slice->n;
        }
    }
    return FED_OK;
}

fed_status feddc_coder_encode(feddc_coder *c, const feddc_shard *shard, bool plain, const float *x,
                              uint8_t *dst, size_t *len, fed_error *err) {
    if (feddc_coder_is_raw(c, shard, plain)) {
        *len = shard->n * sizeof *x;
        FED_TRY(
            feddc_values_explain(c->values, feddc_values_bytes(c->values, x, shard->n, dst), err));
        return feddc_values_explain(c->values, feddc_values_wait(c->values), err);
    }
    size_t bad = 0;
    const fed_status status = c->on_gpu != NULL ? encode_on_gpu(c, shard, x, dst, len, &bad)
                                                : encode_slices(c, shard, x, dst, len, &bad);
    if (status == FED_OK || (c->on_gpu != NULL && status != FED_ENONFINITE)) {
        return feddc_values_explain(c->values, status, err);
    }
    const feddc_slice *slice = feddc_plan_slice(c->plan, shard, bad);
    return fed_fail(err, status, "%s can't encode values %zu to %zu of the gradient: %s",
                    fedcodec_name(c->codec.vtable), slice->offset, slice->offset + slice->n - 1,
                    fed_status_text(status));
}

fed_status feddc_coder_encode_change(feddc_coder *c, const feddc_shard *shard, const float *weights,
                                     const float *replica, float *room, uint8_t *dst, size_t *len,
                                     fed_error *err) {
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        const size_t from = slice->offset - shard->offset;
        for (size_t i = from; i < from + slice->n; i++) {
            room[i] = slice->plain ? weights[i] : weights[i] - replica[i];
        }
    }
    if (c->residual != NULL) { /* the change has all that earlier messages left out */
        memset(c->residual + shard->offset, 0, shard->n * sizeof *c->residual);
    }
    return feddc_coder_encode(c, shard, false, room, dst, len, err);
}

/* USE_FOLLOW: add coded slices, set those that travel as float32 */
typedef enum use { USE_SET, USE_ADD, USE_FOLLOW } use;

static fed_status use_slice(feddc_coder *c, use what, const feddc_slice *slice, const uint8_t *src,
                            size_t len, float *y) {
    if (slice->plain) {
        if (len != slice->n * sizeof *y) {
            return FED_EFORMAT;
        }
        return feddc_values_use_bytes(c->values, what != USE_ADD, y, src, slice->n);
    }
    return what == USE_SET ? fedcodec_decode(c->codec.vtable, src, len, y, slice->n)
                           : fedcodec_axpy(c->codec.vtable, src, len, 1.0f, y, slice->n);
}

static fed_status use_coded(feddc_coder *c, use what, const feddc_shard *shard, const uint8_t *src,
                            size_t len, float *y) {
    size_t at = 0;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = feddc_plan_slice(c->plan, shard, k);
        uint32_t bytes = 0;
        if (len - at < sizeof bytes) {
            return FED_EFORMAT;
        }
        memcpy(&bytes, src + at, sizeof bytes);
        at += sizeof bytes;
        if (len - at < bytes) {
            return FED_EFORMAT;
        }
        FED_TRY(use_slice(c, what, slice, src + at, bytes, y + (slice->offset - shard->offset)));
        at += bytes;
    }
    return at == len ? FED_OK : FED_EFORMAT;
}

/* y NULL: use the residual as y. */
static fed_status use_any(feddc_coder *c, use what, const feddc_shard *shard, bool plain,
                          const uint8_t *src, size_t len, float *y) {
    if (feddc_coder_is_raw(c, shard, plain)) {
        FED_REQUIRE(len == shard->n * sizeof *y, FED_EFORMAT);
        FED_TRY(feddc_values_use_bytes(c->values, what != USE_ADD, y, src, shard->n));
        return feddc_values_wait(c->values);
    }
    return c->on_gpu != NULL ? feddc_gpu_coder_use(c->on_gpu, what == USE_SET, shard, src, len, y)
           : y != NULL       ? use_coded(c, what, shard, src, len, y)
                             : use_coded(c, what, shard, src, len, c->residual + shard->offset);
}

static fed_status use_message(feddc_coder *c, use what, const feddc_shard *shard, bool plain,
                              const uint8_t *src, size_t len, float *y, fed_error *err) {
    const fed_status status = use_any(c, what, shard, plain, src, len, y);
    if (status == FED_OK || (c->values->gpu != NULL && status != FED_EFORMAT)) {
        return feddc_values_explain(c->values, status, err);
    }
    return fed_fail(err, status, "a message of %zu bytes cannot be decoded as %s for %zu values",
                    len, plain ? "float32" : fedcodec_name(c->codec.vtable), shard->n);
}

fed_status feddc_coder_decode(feddc_coder *coder, const feddc_shard *shard, bool plain,
                              const uint8_t *src, size_t len, float *y, fed_error *err) {
    return use_message(coder, USE_SET, shard, plain, src, len, y, err);
}

fed_status feddc_coder_add(feddc_coder *coder, const feddc_shard *shard, bool plain,
                           const uint8_t *src, size_t len, float *y, fed_error *err) {
    return use_message(coder, USE_ADD, shard, plain, src, len, y, err);
}

fed_status feddc_coder_take_back(feddc_coder *c, const feddc_shard *shard, const uint8_t *src,
                                 size_t len, fed_error *err) {
    return use_message(c, USE_ADD, shard, false, src, len, NULL, err);
}

fed_status feddc_coder_follow(feddc_coder *coder, const feddc_shard *shard, const uint8_t *src,
                              size_t len, float *replica, fed_error *err) {
    return use_message(coder, USE_FOLLOW, shard, false, src, len, replica, err);
}
